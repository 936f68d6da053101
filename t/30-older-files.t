# Files of release 0.01, as t/data holds them: one at rest, one left behind by
# killed processes, one frozen.  What they hold is known from how they were made.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use POSIX ();
use Time::HiRes ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir  = File::Temp->newdir;
my $data = "$FindBin::Bin/data";

# The older files' history.  Its number of operations is known, its batches are
# not, so the model's is set.
my $model = CBFModel->new(1000, 0.01);
$model->add_many([map { "item-$_" } 1 .. 500]);
$model->remove('item-500');
$model->add_many(['twice', 'twice', ('saturated') x 15, '', "a\0b",
    join '', map { chr } 0 .. 255]);
$model->{ops} = 27;

my %known = ((map { ("item-$_" => 1) } 1 .. 499), 'item-500' => 0, twice => 2,
    saturated => 15, '' => 1, "a\0b" => 1, join('', map { chr } 0 .. 255) => 1);
my @others = map { "other-$_" } 1 .. 10_000;

sub copy { my ($name) = @_; spew("$dir/$name", slurp("$data/$name")) }

# The pids in the reader slots of a parsed file.
sub pids { grep { $_ } map { unpack 'L', $_ } unpack '(a16)*', $_[0]{slots} }

# Everything that is known of them.
sub holds_all {
    my ($f, $label, %stats) = @_;
    my @wrong = grep { $f->count_of($_) != $known{$_} } keys %known;
    is("@wrong", '', "$label: each item is counted as often as it was added");
    is(scalar $f->contains_many(\@others), 0, '... and nothing else is in it');
    my $s = $f->stats;
    is(join(' ', map { $s->{$_} } qw(capacity fp_rate hashes counters
        counters_set count ops mmap_size)),
        '1000 0.01 7 16384 3173 504 27 24960', '... the numbers are the known ones');
    table_is($f, $model, '... every counter is the model\'s');
    stats_are($f, $model, '... and every statistic', %stats);
}

# The model itself against the files, before it judges anything.
is($model->counters_set . ' ' . $model->count, '3173 504', 'the model fits');
for my $name (qw(v2-live v2-killed v2-frozen)) {
    is(CBFModel::parse_file(slurp("$data/$name.cbf"))->{table}, $model->bytes,
        "... the table of $name");
}

# ---- at rest -----------------------------------------------------------

{
    my $path = copy('v2-live.cbf');
    holds_all($CLASS->new($path, 7, 0.5), 'v2-live');
    at_rest_ok(slurp($path), 'closed again, it is at rest');
    is(CBFModel::parse_file(slurp($path))->{table}, $model->bytes,
        '... with the same counters');
    my $f    = $CLASS->new($path, 7, 0.5);
    my $more = $model->clone;
    is($_->add('new'), 1, 'it can be added to') for $f, $more;
    is($_->remove('twice'), 1, '... and removed from') for $f, $more;
    is($_->remove('saturated'), 1, '... a saturated item stays') for $f, $more;
    table_is($f, $more, '... counter by counter');
    stats_are($f, $more, '... with the statistics kept');
    undef $f;
    stats_are($CLASS->new($path, 1), $more, '... also over a reopen');
    at_rest_ok(slurp($path), '... and at rest');
}

# An older release may write to it again: what ours keeps beside the counters
# must not be believed then.  Here: one more add by hand, `ops` with it.
{
    my $path = copy('v2-live.cbf');
    { my $f = $CLASS->new($path, 1); $f->add('ours'); $f->stats }
    my $more = $model->clone;
    $more->add('ours');
    stats_are($CLASS->new($path, 1), $more, 'after ours wrote');
    $more->add('by an older release');
    my $bytes = slurp($path);
    substr $bytes, 88, 8, pack 'Q', $more->{ops};
    substr $bytes, 16768, length $more->bytes, $more->bytes;
    spew($path, $bytes);
    my $f = $CLASS->new($path, 1);
    stats_are($f, $more, 'after an older release wrote: counted anew');
    is($f->count_of('by an older release'), 1, '... and read right');
    $_->add('ours again') for $f, $more;
    stats_are($f, $more, '... and kept from there');
}

# ---- left behind by killed processes -----------------------------------

{
    my $path = copy('v2-killed.cbf');
    my $left = CBFModel::parse_file(slurp($path));
    ok($left->{writer} && $left->{parked} == 2 && $left->{slotless} == 3
        && $left->{slots} =~ /[^\0]/ && $left->{bitmap} =~ /[^\0]/,
        'v2-killed: the file is what it is said to be');
    my %dead = map { $_ => 1 } pids($left);
    is(scalar(keys %dead), 1, '... with one slot of one process');
    my $t0 = Time::HiRes::time();
    my $f  = $CLASS->new($path, 1000);
    is($f->add('after'), 1, 'it opens and can be written');
    is($f->remove('after'), 1, '... and written again');
    my $stats = $f->stats;
    cmp_ok(Time::HiRes::time() - $t0, '<', limit(1), '... at once');
    is($stats->{ops}, 29, '... each counted');
    is($stats->{recovered}, 1, '... and the dead writer, once');
    my $now = CBFModel::parse_file(slurp($path));
    is(join(' ', map { $now->{$_} } qw(writer parked slotless)), '0 0 0',
        'the lock words are reset');
    is(scalar(grep { $dead{$_} } pids($now)), 0, '... and no slot of the dead is left');
    undef $f;
    at_rest_ok(slurp($path), 'closed, the file is at rest');
    $model->{ops} = 29;
    my $again = $CLASS->new($path, 1);
    table_is($again, $model, 'all counters are as they were');
    is(join(' ', grep { $again->count_of($_) != $known{$_} } keys %known), '',
        '... and all items');
    is(scalar $again->contains_many(\@others), 0, '... no others');
    is($again->stats->{counters_set} . ' ' . $again->count, '3173 504',
        '... and the numbers');
    $model->{ops} = 27;
}

# Reading alone: nobody waits for the dead either.
{
    my $path = copy('v2-killed.cbf');
    my $r = guarded(1, sub {
        my $f = $CLASS->new($path, 1000);
        join ' ', $f->contains('item-1'), $f->count, $f->stats->{counters_set},
            scalar @{ $f->histogram };
    });
    is($r->{out}, '1 504 3173 16', 'reads of v2-killed, within a second')
        or diag outcome($r);
}

# By a descriptor there is no file lock to tell who is there: the dead must be
# told by their pids.  Pids of the fixture may be alive here by chance; those of
# a child that has ended are not.
{
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    POSIX::_exit(0) unless $pid;
    waitpid $pid, 0;
    my $bytes = slurp("$data/v2-killed.cbf");
    substr $bytes, 72, 4, pack 'L', 0x80000000 + $pid;
    for my $at (map { 256 + 16 * $_ } 0 .. 1023) {
        substr $bytes, $at, 4, pack 'L', $pid if substr($bytes, $at, 4) ne "\0" x 4;
    }
    open my $fh, '+<', spew("$dir/by-fd", $bytes) or die $!;
    my $r = guarded(2, sub {
        my $f = $CLASS->new_from_fd(fileno $fh);
        join ' ', $f->add('after'), $f->remove('after'), $f->count,
            $f->stats->{counters_set};
    });
    is($r->{out}, '1 1 504 3173', 'v2-killed by a descriptor') or diag outcome($r);
}

# ---- frozen ------------------------------------------------------------

{
    my $path = copy('v2-frozen.cbf');
    for my $mode (0600, 0400) {
        chmod $mode, $path or die $!;
        my $ro = $CLASS->new_readonly($path);
        holds_all($ro, sprintf('v2-frozen, mode %04o', $mode),
            frozen => 1, readonly => 1);
        is($ro->verify, undef, '... with nothing to verify by');
        croaks('add', qr/frozen|read-only/, sub { $ro->add('x') }, '... for good');
    }
    chmod 0600, $path or die $!;
    croaks('new', qr/frozen.*new_readonly/, sub { $CLASS->new($path, 1000) },
        'new refuses it and names new_readonly');
    is(slurp($path), slurp("$data/v2-frozen.cbf"), 'not a byte has changed');
    my $f = $CLASS->new(undef, 1000);
    $f->merge($CLASS->new_readonly($path));
    table_is($f, $model, 'merged into a new filter');
}
croaks('new_readonly', qr/not frozen/, sub { $CLASS->new_readonly(copy('v2-live.cbf')) },
    'v2-live is no file for new_readonly');

done_testing;
