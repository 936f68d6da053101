# save, verify, refresh: a frozen snapshot put in place whole, the check of what
# arrived, and a reader that follows from one snapshot to the next.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my @geometry = (300, 0.01);
sub names { my ($d) = @_; opendir my $h, $d or die $!; sort grep { !/\A\.\.?\z/ } readdir $h }

# Turns one bit of a counter byte around.
sub damage {
    my ($path, $byte) = @_;
    my $data = slurp($path);
    my $at = $byte < 0 ? length($data) + $byte : 16768 + $byte;
    substr $data, $at, 1, chr(ord(substr $data, $at, 1) ^ 0x10);
    return spew($path, $data);
}

# ---- save --------------------------------------------------------------

mkdir "$dir/out" or die $!;
my $path  = "$dir/out/ship.cbf";
my $f     = $CLASS->new(undef, @geometry);
my $model = CBFModel->new(@geometry);
$_->add_many([map { "item $_" } 1 .. 200]) for $f, $model;
$_->add_many([('often') x 17]) for $f, $model;

$f->save($path);
is(join(' ', names("$dir/out")), 'ship.cbf', 'save leaves that file alone there');
is(mode_of($path), '0600', '... owner-only by default');
is($f->frozen . $f->readonly, '00', 'the filter goes on as before');
is($f->add('after'), 1, '... and can be written');
$f->remove('after');
stats_are($f, $model, 'save is no operation, and leaves the table', ops => 4);

my $h = CBFModel::parse_file(slurp($path));
is($h->{seal}, 1, 'what was saved is frozen');
is($h->{table}, $model->bytes, '... holds the counters');
at_rest_ok(slurp($path), '... and no trace of a process');
my $ro = $CLASS->new_readonly($path);
stats_are($ro, $model, '... and opens as a read-only filter',
    frozen => 1, readonly => 1);
croaks('new', qr/frozen.*new_readonly/, sub { $CLASS->new($path, @geometry) },
    '... as only that');

my $umask = umask 0077;
for my $mode (0644, 0600, 0444, 0640) {
    my $to = sprintf '%s/out/mode-%04o', $dir, $mode;
    $f->save($to, $mode);
    is(mode_of($to), sprintf('%04o', $mode), 'save gives the mode asked for');
    is(umask, 0077, '... and leaves the umask alone');
}
umask $umask;
$f->save("$dir/out/mode-undef", undef);
is(mode_of("$dir/out/mode-undef"), '0600', '... undef is the default');

# Over an old file: whoever has that one open keeps it.
$f->add('second');
$f->save($path);
is($ro->contains('second'), 0, 'the old snapshot is still what it was');
is($CLASS->new_readonly($path)->contains('second'), 1, 'a new reader has the new');
is(scalar(grep { /ship/ } names("$dir/out")), 1, 'nothing is left beside it');

# Over something else that is a file, too; never over a directory.
$f->save(spew("$dir/out/text", 'hello'));
is($CLASS->new_readonly("$dir/out/text")->verify, 1, 'any file is replaced');
mkdir "$dir/out/folder" or die $!;
for my $case (['a directory', "$dir/out/folder"], ['no such directory', "$dir/no/x"],
    ['a path below a file', "$path/x"]) {
    my ($what, $to) = @$case;
    croaks('save', qr/\Q$to\E/, sub { $f->save($to) }, "save to $what");
}
is(scalar(grep { !/\A(?:ship\.cbf|mode-\w+|text|folder)\z/ } names("$dir/out")), 0,
    '... leaves nothing behind');
for my $case (['no path', undef], ['an empty path', ''], ['a NUL', "$dir/a\0b"]) {
    my ($what, $to) = @$case;
    croaks('save', qr/path/, sub { no warnings; $f->save($to) }, "save to $what");
}
croaks('save', qr/mode/, sub { $f->save("$dir/out/bad", 010000) },
    'save with a mode of too many bits');
ok(!-e "$dir/out/bad", '... makes no file');

# From every kind of filter.
{
    my $file = $CLASS->new("$dir/source.cbf", @geometry);
    $file->add('from a file');
    $file->save("$dir/copy.cbf");
    is($CLASS->new_readonly("$dir/copy.cbf")->contains('from a file'), 1,
        'from a file');
    $file->freeze;
    $file->save("$dir/copy.cbf");
    my $frozen = $CLASS->new_readonly("$dir/copy.cbf");
    is($frozen->verify, 1, '... from a frozen one');
    $frozen->save("$dir/again.cbf");
    is($CLASS->new_readonly("$dir/again.cbf")->verify, 1, '... from a read-only one');
    is(slurp("$dir/again.cbf"), slurp("$dir/copy.cbf"), '... the same bytes');
}

# ---- verify ------------------------------------------------------------

is($f->verify, undef, 'verify: a mutable filter has nothing to compare with');
is($CLASS->new_readonly("$FindBin::Bin/data/v2-frozen.cbf")->verify, undef,
    '... nor one that an older release froze');
is($CLASS->new_readonly($path)->verify, 1, '... a snapshot is whole');
{
    my $sealed = $CLASS->new("$dir/sealed.cbf", @geometry);
    $sealed->add_many([1 .. 100]);
    my $open = $CLASS->new("$dir/sealed.cbf", @geometry);
    $sealed->freeze;
    is($sealed->verify, 1, '... a frozen filter, through the handle that froze');
    is($open->verify, 1, '... through one that was open');
    is($CLASS->new_readonly("$dir/sealed.cbf")->verify, 1, '... and read-only');
}
for my $byte (0, 1, 511, 1024, -1) {
    $f->save("$dir/damaged.cbf");
    my $reader = $CLASS->new_readonly(damage("$dir/damaged.cbf", $byte));
    is($reader->verify, 0, "one bit changed in counter byte $byte: 0");
}
for my $kind (['anonymous', $CLASS->new(undef, @geometry)],
    ['memfd', $CLASS->new_memfd('v', @geometry)]) {
    my ($what, $g) = @$kind;
    $g->add('x');
    $g->freeze;
    is($g->verify, 1, "$what, frozen: 1");
}

# ---- refresh -----------------------------------------------------------

my $reader = $CLASS->new_readonly($path);
is($reader->refresh, '0', 'refresh: nothing new is 0');
$f->add('third');
$f->save($path);
is($reader->contains('third'), 0, 'a new snapshot is not seen before');
is($reader->refresh, 1, '... refresh says 1');
is($reader->contains('third'), 1, '... and it is');
is($reader->refresh, 0, '... once');
is($reader->path, $path, 'the path stays');
is($reader->readonly . $reader->frozen, '11', 'read-only as before');

# Another geometry is fine.
my $other = $CLASS->new(undef, 5000, 0.001);
$other->add('larger');
$other->save($path);
is($reader->refresh . $reader->contains('larger') . $reader->contains('third'),
    '110', 'a snapshot of another geometry');
is(join(' ', $reader->capacity, $reader->hashes, $reader->counters), '5000 10 131072',
    '... which the handle then has');

# Bad files: the handle goes on.
my %bad = (
    'text'        => 'no filter at all',
    'empty'       => '',
    'a cut one'   => substr(slurp($path), 0, 5000),
    'not frozen'  => $f->to_bytes,
    'zeros'       => "\0" x length slurp($path),
);
for my $what (sort keys %bad) {
    spew("$path.new", $bad{$what});
    rename "$path.new", $path or die $!;
    croaks('refresh', qr/\Q$path\E/, sub { $reader->refresh },
        "refresh to a bad file: $what");
    is($reader->contains('larger') . $reader->verify, '11',
        '... and the handle serves the old one');
    croaks('refresh', qr/./, sub { $reader->refresh }, '... and says so again');
}
$f->save($path);
is($reader->refresh . $reader->contains('third'), '11', 'and then to a good one');

# Only of handles made by new_readonly.
for my $case (['anonymous', $CLASS->new(undef, 5)],
    ['memfd', $CLASS->new_memfd('r', 5)],
    ['file', $CLASS->new("$dir/file.cbf", 5)]) {
    my ($what, $g) = @$case;
    $g->add('x');
    my $r = guarded(8, sub { $g->refresh });
    ok($r->{died} || ($r->{ok} && $r->{out} eq '0'), "refresh of $what: no, or an error")
        or diag outcome($r);
    is($g->contains('x'), 1, '... and nothing happens');
}

# Not even when another file stands at the path: a filter that can be written
# must not turn into a snapshot behind its user's back.
{
    my $g = $CLASS->new("$dir/replaced.cbf", 5);
    $other->save("$dir/replaced.cbf");
    eval { $g->refresh };
    is($g->readonly . $g->frozen, '00',
        'refresh leaves a filter that is open for writing alone');
    is(error_of(sub { $g->add('x') }), undef, '... which can be written');
}

# A frozen filter never changes, so saving it takes no memory for a copy.
SKIP: {
    skip 'memory is counted by another tool here', 2 if $ENV{CBF_TEST_SLOW};
    my $peak = sub { slurp('/proc/self/status') =~ /^VmHWM:\s+([0-9]+) kB/m; $1 };
    my $r = guarded(20, sub {
        my $g = $CLASS->new(undef, 2_500_000);    # 16 MiB
        $g->add('x');
        $g->freeze;    # looks at all of it
        my $before = $peak->();
        $g->save("$dir/large.cbf");
        return $peak->() - $before;
    });
    ok($r->{ok} && $r->{out} < 8192, 'saving a frozen filter makes no copy')
        or diag CBFTest::outcome($r);
    is($CLASS->new_readonly("$dir/large.cbf")->verify, 1, '... it is whole');
}

done_testing;
