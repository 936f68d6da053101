# A reader that calls refresh between requests, for as long as it lives: over
# good files, missing, half-copied and foreign ones, files of another geometry
# and many publishes a second, and without anything left behind.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use Time::HiRes ();
use CBFModel;
use CBFProc;
use CBFTest qw($CLASS slurp spew error_of);
use Data::CountingBloomFilter::Shared;

watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/served.cbf";

# Version n of what is published says so by its capacity, which no other has,
# and holds "n-1".."n-50".  Every third one has a far larger table.
my ($BASE, $ITEMS) = (100, 50);
sub capacity_of { $_[0] * 2 + ($_[0] % 3 ? $BASE : 30_000 + $BASE) }
sub version_of {
    my ($f) = @_;
    my $more = $f->capacity - $BASE;
    return ($more > 30_000 ? $more - 30_000 : $more) / 2;
}
sub items_of { my ($n) = @_; return [map { "$n-$_" } 1 .. $ITEMS] }

sub version {
    my ($n) = @_;
    my $f = $CLASS->new(undef, capacity_of($n), 0.001);
    $f->add_many(items_of($n));
    return $f;
}

# Puts bytes at the path as a copy under another name and a rename would.
sub put {
    my ($bytes) = @_;
    rename spew("$path.new", $bytes), $path or die "rename: $!";
    return;
}

sub bytes_of_version {
    version($_[0])->save("$dir/made.cbf");
    return slurp("$dir/made.cbf");
}

sub fds { opendir my $d, '/proc/self/fd' or die $!; return scalar(() = readdir $d) }

# Mappings of files that were at the path, by now deleted or not.
sub maps {
    open my $in, '<', '/proc/self/maps' or die $!;
    return scalar grep { m{\Q$dir\E/} } <$in>;
}

# Whether the reader is, as a whole, that version.
sub serves {
    my ($reader, $n, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $found = $reader->contains_many(items_of($n));
    return is(join(' ', version_of($reader), $found, $reader->verify,
        $reader->readonly), "$n $ITEMS 1 1", $name);
}

version(1)->save($path);
my $reader = $CLASS->new_readonly($path);
serves($reader, 1, 'a reader of the first version');
my ($fds, $maps) = (fds(), maps());
is($maps, 1, 'it has one mapping');

# ---- what it must survive ---------------------------------------------------

version(2)->save($path);
is($reader->refresh, 1, 'a good file: 1');
serves($reader, 2, '... is served');
version(3)->save($path);
is($reader->refresh, 1, 'one of another geometry: 1');
serves($reader, 3, '... is served');
is($reader->counters, CBFModel->new(capacity_of(3), 0.001)->stats->{counters},
    '... with its counters');

unlink $path or die "unlink: $!";
is(join('', map { $reader->refresh } 1 .. 500), '0' x 500,
    'no file, five hundred times: 0');
serves($reader, 3, '... and the last one is served');
is(error_of(sub { $CLASS->new_readonly($path) }) ? 1 : 0, 1,
    '... where a new reader has none');
version(4)->save($path);
is($reader->refresh, 1, 'then a new one: 1');
serves($reader, 4, '... is served');

# A copy that grows at the path itself, after the old file was removed.
{
    my $bytes = bytes_of_version(5);
    my $whole = length $bytes;
    unlink $path or die "unlink: $!";
    open my $out, '>:raw', $path or die "$path: $!";
    $out->autoflush;
    my ($at, @switched, @quiet) = (0);
    for my $to (0, 1, 64, 255, 256, 4096, 16_768, $whole - 1024, $whole - 1) {
        print {$out} substr $bytes, $at, $to - $at or die "$path: $!";
        $at = $to;
        for (1 .. 20) {
            my $error = error_of(sub { push @switched, $to if $reader->refresh });
            push @quiet, $to if ($error // '') !~ /->refresh: .*\Q$path\E/;
        }
    }
    is("@switched", '', 'a half-copied file is never gone over to');
    is("@quiet", '', '... each refresh says which file is bad');
    serves($reader, 4, '... and the old one is served');
    print {$out} substr $bytes, $at or die "$path: $!";
    is($reader->refresh, 1, 'the whole copy: 1');
    serves($reader, 5, '... is served');
}

my $good = bytes_of_version(6);
my %bad = (
    'half'         => substr($good, 0, length($good) / 2),
    'empty'        => '',
    'text'         => "no filter\n" x 3000,
    'not frozen'   => version(6)->to_bytes,
    'too long'     => "$good\0",
    'other header' => substr($good, 0, 16) . ("\xff" x 64) . substr($good, 80),
);
for my $what (sort keys %bad) {
    put($bad{$what});
    like(error_of(sub { $reader->refresh }), qr/->refresh: .*\Q$path\E/,
        "a bad file ($what) is refused");
    serves($reader, 5, '... and the old one is served');
}
unlink $path;
mkdir $path or die "mkdir: $!";
like(error_of(sub { $reader->refresh }), qr/\Q$path\E/, 'a directory is refused');
rmdir $path or die "rmdir: $!";
symlink "$dir/made.cbf", $path or die "symlink: $!";
like(error_of(sub { $reader->refresh }), qr/\Q$path\E/, 'a link is refused');
unlink $path or die "unlink: $!";
serves($reader, 5, '... and the old one is served');

# A copy of the full length whose end never came passes for a file; that the
# counters are not those that were saved is what verify is for.
put(substr($good, 0, 17_000) . "\0" x (length($good) - 17_000));
eval { $reader->refresh };
is($reader->verify, version_of($reader) == 6 ? 0 : 1,
    'a full-length copy with an empty end does not verify as whole');
put($good);
is($reader->refresh, 1, 'and then a good one: 1');
serves($reader, 6, '... is served');

# A child that refreshes does so for itself.
version(7)->save($path);
my $r = in_time(20, sub { return $reader->refresh, version_of($reader) });
is("@{ $r->{list} }", '1 7', 'a child goes over to the new one')
    or diag outcome($r);
serves($reader, 6, '... its parent has its own');
is($reader->refresh, 1, '... and goes over when it asks');

is(fds(), $fds, 'no descriptor was left behind');
is(maps(), $maps, '... and no mapping');

# ---- many publishes a second ------------------------------------------------

# A publisher of good and bad files, some hundred a second for at most two
# seconds; the reader answers requests all that time.
{
    my $SECONDS  = 2 * ($ENV{CBF_TEST_SLOW} || 1);
    my $VERSIONS = 120;
    my $first    = 10;
    my @made     = map { bytes_of_version($_) } $first .. $first + $VERSIONS - 1;
    my $gate     = gate();
    my $publish  = spawn(sub {
        my ($me) = @_;
        $me->tell('ready');
        $gate->wait;
        my ($end, $n) = (Time::HiRes::time() + $SECONDS, 0);
        while ($n < @made && Time::HiRes::time() < $end) {
            put($made[$n++]);
            select undef, undef, undef, 0.002;
            next if $n % 7;
            unlink $path;
            put(substr $made[$n - 1], 0, length($made[$n - 1]) / 2);
        }
        version($first + $VERSIONS)->save($path);
        return $n;
    });
    $publish->hear(20);
    $gate->open;

    my ($last, $switched, $requests, %wrong, %refused) = (7, 0, 0);
    my $end = Time::HiRes::time() + 15 * $SECONDS;
    while ($last < $first + $VERSIONS && Time::HiRes::time() < $end) {
        my $renewed = eval { $reader->refresh };
        $refused{ $@ =~ s/ at .*//sr }++ if !defined $renewed;
        $requests++;
        my $now = version_of($reader);
        $switched++ if $renewed;
        $wrong{"from $last back to $now"}++ if $now < $last;
        $wrong{"$now without a switch"}++ if $now != $last && !$renewed;
        $last = $now;
        next if !$renewed && $requests % 50;
        $wrong{"$now is not whole"}++ if !$reader->verify
            || $reader->contains_many(items_of($now)) != $ITEMS;
    }
    $r = $publish->result(30);
    ok($r->{ok}, 'the publisher ended well') or diag outcome($r);
    my ($published) = @{ $r->{list} };
    note("$published published, $switched seen, $requests requests, "
        . 'refused: ' . join ', ', map { "$refused{$_} x $_" } sort keys %refused);
    is(join(', ', sort keys %wrong), '',
        'each version seen was whole, and none came twice');
    cmp_ok($published, '>=', 34, 'at the rate of a thousand a minute, or more');
    cmp_ok($switched, '>=', 2, '... the reader followed');
    is($last, $first + $VERSIONS, '... to the last one');
    is(scalar(grep { !/->refresh: .*\Q$path\E/ } keys %refused), 0,
        '... and what it refused was named');
    serves($reader, $first + $VERSIONS, '... and goes on from there');
}
is(fds(), $fds, 'no descriptor was left behind');
is(maps(), $maps, '... and no mapping');

# ---- for a long time --------------------------------------------------------

# Two files take turns at the path, with a bad one between: three thousand
# rounds of all ways through refresh, and memory does not grow.
SKIP: {
    skip 'memory is counted by another tool here', 1 if $ENV{CBF_TEST_SLOW};
    my @turn = map { spew("$dir/turn-$_", bytes_of_version($_)) } 1, 3;
    my $cut  = spew("$dir/cut", substr slurp($turn[0]), 0, 17_000);
    my $pages = sub {
        open my $in, '<', '/proc/self/statm' or die $!;
        return (split ' ', scalar <$in>)[1];
    };
    my $rounds = sub {
        for my $n (1 .. $_[0]) {
            for my $file (@turn, $cut) {
                unlink $path;
                $reader->refresh;
                link $file, $path or die "link: $!";
                eval { $reader->refresh };
                $reader->contains('1-1');
            }
        }
    };
    $rounds->(300);
    my $before = $pages->();
    $rounds->(1000);
    cmp_ok($pages->() - $before, '<=', 60, 'no memory was left behind');
    is(fds(), $fds, '... no descriptor');
    is(maps(), $maps, '... and no mapping');
}
undef $reader;
is(maps(), $maps - 1, 'and at the end there is none');

done_testing;
