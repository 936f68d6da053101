# Frozen files: whole on disk, opened by new_readonly and by nothing else,
# wherever they were copied and without the right to write; new_readonly's
# handles and what they refuse.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
chmod 0755, "$dir" or die $!;
my @geometry = (2000, 0.001);
my $model = CBFModel->new(@geometry);
my $path  = "$dir/frozen.cbf";
{
    my $f = $CLASS->new($path, @geometry);
    $_->add_many([1 .. 1500]) for $f, $model;
    $_->add_many([('often') x 16]) for $f, $model;
    $f->freeze;

    # Sealed on disk at once, with the handle still open.
    my $h = CBFModel::parse_file(slurp($path));
    is($h->{seal}, 1, 'the file is sealed');
    ok($h->{table} eq $model->bytes, '... and whole');
    stats_are($CLASS->new_readonly($path), $model, '... and opens while the '
        . 'handle that froze it is there', frozen => 1, readonly => 1);
}
my $bytes = slurp($path);
at_rest_ok($bytes, 'closed: no trace of a process');
my @stat = stat $path;
my $denied = do { local $! = POSIX::EACCES(); "$!" };

# ---- new_readonly ------------------------------------------------------

for my $mode (0600, 0400, 0444) {
    chmod $mode, $path or die $!;
    my $ro = $CLASS->new_readonly($path);
    my $label = sprintf 'mode %04o', $mode;
    stats_are($ro, $model, "$label: stats", frozen => 1, readonly => 1);
    is(scalar $ro->contains_many([1 .. 1500]), 1500, '... all items');
    is($ro->count_of('often') . $ro->count_of(7), '151', '... their counts');
    is($ro->path . ' ' . $ro->memfd, "$path -1", '... path and descriptor');
    is($ro->frozen . $ro->readonly, '11', '... frozen and read-only');
    is(join(' ', $ro->capacity, $ro->fp_rate, $ro->hashes, $ro->counters),
        '2000 0.001 10 32768', '... the geometry');
    is($ro->verify, 1, '... verified');
    croaks('freeze', qr/read-only/, sub { $ro->freeze }, '... freeze');
    for my $call ([add => 'x'], [remove => 1], [add_many => ['x']], ['clear'],
        [remove_many => [1]], [add_if_absent => 'x'],
        [add_if_absent_many => ['x']], [merge => $ro]) {
        my ($method, @args) = @$call;
        croaks($method, qr/frozen|read-only/, sub { $ro->$method(@args) },
            "... $method");
    }
    for my $how ([new => $path, @geometry], [new => $path, @geometry, 0644]) {
        my ($method, @args) = @$how;
        # Who may not write the file may learn only that.
        my $reason = -w $path ? qr/frozen.*new_readonly/
            : qr/frozen.*new_readonly|\Q$denied\E/;
        croaks($method, $reason, sub { $CLASS->$method(@args) },
            '... new refuses it and says why');
    }
}
is(slurp($path), $bytes, 'not a byte has changed');
is((stat $path)[9], $stat[9], '... nor the time of the last change');

# By a descriptor: refused, whichever way it is open.
chmod 0600, $path or die $!;
for my $how ('<', '+<') {
    open my $fh, $how, $path or die $!;
    croaks('new_from_fd', qr/./, sub { $CLASS->new_from_fd(fileno $fh) },
        "new_from_fd of a frozen file, open $how");
}
{
    open my $fh, '+<', $path or die $!;
    croaks('new_from_fd', qr/frozen/, sub { $CLASS->new_from_fd(fileno $fh) },
        '... says that it is frozen');
    my $memfd = $CLASS->new_memfd('x', @geometry);
    $memfd->freeze;
    croaks('new_from_fd', qr/frozen/, sub { $CLASS->new_from_fd($memfd->memfd) },
        'new_from_fd of a frozen memfd');
}

# ---- several readers, in several processes -----------------------------

{
    my @readers = map { $CLASS->new_readonly($path) } 1 .. 3;
    is(join(' ', map { $_->count_of('often') } @readers), '15 15 15',
        'several handles');
    undef $readers[1];
    is($readers[0]->contains(1) . $readers[2]->contains(1), '11',
        '... one of which goes');
    my $r = as_nobody(sub { $readers[0]->contains(1) . $readers[0]->verify });
    is($r->{out}, '11', 'inherited by a child without rights') or diag outcome($r);
    chmod 0444, $path or die $!;
    $r = as_nobody(sub {
        my $ro = $CLASS->new_readonly($path);
        $ro->contains(1) . $ro->stats->{counters_set} . ' ' . $ro->verify;
    });
    is($r->{out}, '1' . $model->counters_set . ' 1',
        'opened by one without the right to write') or diag outcome($r);
    chmod 0600, $path or die $!;
}

# ---- copies ------------------------------------------------------------

{
    my $copy = spew("$dir/copy.cbf", $bytes);
    my $ro   = $CLASS->new_readonly($copy);
    stats_are($ro, $model, 'a copy opens', frozen => 1, readonly => 1);
    is($ro->verify, 1, '... and is whole');
    my $sum = $CLASS->new(undef, @geometry);
    $sum->merge($ro);
    table_is($sum, $model, '... and can be merged into a new filter');
    is($sum->add('more'), 1, '... which is mutable');
    unlink $copy or die $!;
    is($ro->contains(1) . $ro->count, '1' . $model->count,
        'a copy that was removed is served on');
}

# A torn copy: right header, some counters missing.
for my $case (['the last page lost', length($bytes) - 4096, 4096],
    ['a page in the middle', 20480, 4096], ['the first page', 16768, 3712]) {
    my ($what, $at, $len) = @$case;
    my $torn = $bytes;
    substr $torn, $at, $len, "\0" x $len;
    my $ro = $CLASS->new_readonly(spew("$dir/torn.cbf", $torn));
    is($ro->verify, 0, "$what: verify says 0");
    ok(defined $ro->contains(1), '... and it can be asked at one\'s own risk');
}

# The seal has two values.
for my $seal (2, 255) {
    my $odd = $bytes;
    substr $odd, 96, 1, chr $seal;
    spew("$dir/odd.cbf", $odd);
    for my $method (qw(new new_readonly)) {
        croaks($method, qr/\Q$dir\E\/odd/, sub {
            $CLASS->$method("$dir/odd.cbf", $method eq 'new' ? @geometry : ());
        }, "$method: a seal of $seal is no filter");
    }
}

done_testing;
