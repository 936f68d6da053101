# Making files: the mode, what is adopted as new, what an interrupted creation
# leaves and how that is treated, and whose geometry wins.
use strict;
use warnings;
use Test::More;
use Cwd ();
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my $n   = 0;
sub fresh { "$dir/f" . ++$n }
my @geometry = (100, 0.01);
my $bytes    = CBFModel->geometry(@geometry)->{mmap_size};

# A file with exactly these bytes and this mode.
sub given {
    my ($data, $mode) = @_;
    my $path = spew(fresh(), $data);
    chmod $mode, $path or die $!;
    return $path;
}

# ---- modes -------------------------------------------------------------

for my $umask (0, 022, 077, 0777) {
    my $old = umask $umask;
    my $label = sprintf 'umask %04o', $umask;
    for my $mode (undef, 0600, 0644, 0666, 0640, 0400, 0000, 01600, 07777) {
        my $path = fresh();
        my $f = $CLASS->new($path, @geometry, $mode);
        is(mode_of($path), sprintf('%04o', defined $mode ? $mode : 0600),
            "$label: mode " . (defined $mode ? sprintf '%04o', $mode : 'undef'));
        is($f->add('x'), 1, '... usable');
    }
    is(umask, $umask, "$label is left alone");
    umask $old;
}
is(do { my $p = fresh(); $CLASS->new($p, @geometry, '416'); mode_of($p) }, '0640',
    'a mode as text is a decimal number, as in chmod');
{
    my $path = fresh();
    $CLASS->new($path, @geometry, 0640);
    $CLASS->new($path, @geometry, 0666);
    is(mode_of($path), '0640', 'an existing file keeps its mode');
    chmod 0604, $path or die $!;
    $CLASS->new($path, @geometry);
    is(mode_of($path), '0604', '... whatever it is');
}

# ---- paths -------------------------------------------------------------

{
    my $cwd = Cwd::getcwd();
    chdir "$dir" or die $!;
    my $f = $CLASS->new('relative.cbf', @geometry);
    is($f->path, 'relative.cbf', 'a relative path, as given');
    ok(-e "$dir/relative.cbf", '... is made here');
    mkdir 'sub' or die $!;
    my $g = $CLASS->new('./sub/../sub/x', @geometry);
    is($g->path, './sub/../sub/x', '... one with dots, as given');
    $CLASS->new('0', @geometry);
    ok(-e "$dir/0", 'a file named 0 is one');
    chdir $cwd or die $!;
}
for my $name ("caf\xe9", "line\nbreak", ' spaces ', '-dash', 'x' x 200) {
    my $path = "$dir/$name";
    my $f = $CLASS->new($path, @geometry);
    ok(-e $path, 'an odd file name');
    is($f->path, $path, '... as given');
}
for my $case (['a folder that is not there', "$dir/none/x"],
    ['a path below a file', "$dir/relative.cbf/x"],
    ['a name that is too long', "$dir/" . 'x' x 300]) {
    my ($what, $path) = @$case;
    croaks('new', qr/\Q$path\E/, sub { $CLASS->new($path, @geometry) },
        "$what: an error that names it");
}

# ---- adopted -----------------------------------------------------------

for my $case (['an empty file', ''], ['zeros of the right size', "\0" x $bytes]) {
    my ($what, $data) = @$case;
    for my $mode (undef, 0640) {
        my $path = given($data, 0664);
        my $f = $CLASS->new($path, @geometry, $mode);
        is($f->stats->{counters_set} . ' ' . $f->counters, '0 1024',
            "$what is taken as new");
        is(mode_of($path), sprintf('%04o', defined $mode ? $mode : 0600),
            '... and gets the mode');
        is($f->add('x'), 1, '... usable');
        undef $f;
        is($CLASS->new($path, @geometry)->contains('x'), 1, '... and reopens');
        is(-s $path, $bytes, '... in the right size');
    }
}

# ---- refused, and left alone -------------------------------------------

sub refused {
    my ($data, $reason, $what, @open) = @_;
    my $path = given($data, 0664);
    @open = @geometry unless @open;
    croaks('new', $reason, sub { $CLASS->new($path, @open) }, $what);
    like(error_of(sub { $CLASS->new($path, @open) }), qr/\Q$path\E/,
        '... naming the path');
    ok(slurp($path) eq $data, '... leaving it as it was');
    is(mode_of($path), '0664', '... and its mode');
}

my $invalid = qr/invalid counting Bloom filter file|too small/;
refused("\0" x $_, $invalid, "$_ zeros")
    for 1, 4096, 16768, $bytes - 1, $bytes + 1, 2 * $bytes;
refused("\0" x $bytes, $invalid, 'zeros of another geometry\'s size', 1000, 0.01);

# A header that was begun and not finished: some fields, no magic number yet.
{
    my $path = fresh();
    $CLASS->new($path, @geometry);
    my $whole = slurp($path);
    my $incomplete = qr/incomplete counting Bloom filter file.*remove it and retry/;
    for my $upto (8, 12, 24, 32, 40, 48, 56, 64, 72) {
        my $begun = "\0" x 4 . substr($whole, 4, $upto - 4)
            . "\0" x ($bytes - $upto);
        refused($begun, $incomplete, "a header up to byte $upto, without magic");
    }
    my $last = "\0" x 64 . substr($whole, 64, 8) . "\0" x ($bytes - 72);
    refused($last, $incomplete, 'its last field alone');
    croaks('new_readonly', qr/incomplete counting Bloom filter file/,
        sub { $CLASS->new_readonly(given("\0" x 4 . substr($whole, 4), 0600)) },
        'new_readonly says the same');
}

# ---- other people's files ----------------------------------------------

SKIP: {
    skip 'only root can give files away', 8 unless $> == 0;
    for my $case (['empty', ''], ['zeros', "\0" x $bytes]) {
        my ($what, $data) = @$case;
        my $path = given($data, 0666);
        chown 65534, 65534, $path or die $!;
        croaks('new', qr/\Q$path\E/, sub { $CLASS->new($path, @geometry) },
            "$what, of somebody else: refused");
        ok(slurp($path) eq $data, '... left as it was');
        is(mode_of($path), '0666', '... and its mode');
        is((stat $path)[4], 65534, '... and its owner');
    }
}

# ---- whose geometry wins -----------------------------------------------

{
    my $path = fresh();
    { my $f = $CLASS->new($path, 1000, 0.001); $f->add('x') }
    for my $other ([1, 0.5], [1_000_000, 0.01], [1000], [5, undef, undef]) {
        my $f = $CLASS->new($path, @$other);
        is(join(' ', $f->capacity, $f->fp_rate, $f->hashes, $f->counters),
            '1000 0.001 10 16384', 'an existing file\'s own geometry wins');
        is($f->contains('x'), 1, '... and its content is there');
    }
}

# ---- descriptors -------------------------------------------------------

# None outlives an exec, and none is left when a handle is gone.
{
    my $fds = sub { opendir my $d, '/proc/self/fd' or die $!; scalar(() = readdir $d) };
    my $before = $fds->();
    {
        my $path = fresh();
        my @all = ($CLASS->new($path, @geometry), $CLASS->new($path, @geometry),
            $CLASS->new_memfd('x', @geometry));
        push @all, $CLASS->new_from_fd($all[2]->memfd);
        $all[0]->save("$path.frozen");
        push @all, $CLASS->new_readonly("$path.frozen");
        my $shown = `"$^X" -e 'for (glob "/proc/self/fd/*") { print readlink, "\\n" }'`;
        is($? , 0, 'a program was run');
        unlike($shown, qr/\Q$dir\E|memfd:/, '... and it has none of our descriptors');
    }
    for my $bad (given('text', 0600), "$dir/none/x", "$dir") {
        ok(defined error_of(sub { $CLASS->new($bad, @geometry) }), 'an error');
        ok(defined error_of(sub { $CLASS->new_readonly($bad) }), '... two');
    }
    is($fds->(), $before, 'all descriptors are closed again');
}

done_testing;
