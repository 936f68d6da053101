# unlink, as a method of a filter and of the class, and sync.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
chmod 0755, "$dir" or die $!;
my $n = 0;
sub fresh { "$dir/f" . ++$n }

# ---- unlink ------------------------------------------------------------

{
    my $path = fresh();
    my $f    = $CLASS->new($path, 100);
    $f->add('x');
    is(error_of(sub { $f->unlink }), undef, 'unlink of a filter');
    ok(!-e $path, '... removes the file');
    is($f->contains('x') . $f->add('y') . $f->count, '112', '... and the filter goes on');
    is($f->path, $path, '... with its path');
    is(error_of(sub { $f->unlink }), undef, '... again: already gone is fine');
    is(error_of(sub { $f->sync }), undef, '... sync as well');
    my $g = $CLASS->new($path, 100);
    is($g->contains('x'), 0, 'a new file there is another filter');
    undef $f;
    ok(-e $path, '... which the end of the old handle leaves alone');
    is($g->add('x'), 1, '... and in working order');
}
{
    my $path = fresh();
    $CLASS->new($path, 100);
    is(error_of(sub { $CLASS->unlink($path) }), undef, 'unlink of the class');
    ok(!-e $path, '... removes the file');
    is(error_of(sub { $CLASS->unlink($path) }), undef, '... already gone is fine');
    my $f = $CLASS->new(fresh(), 100);
    is(error_of(sub { $CLASS->unlink($f->path) }), undef, '... of an open one');
    ok(!-e $f->path, '... removes it');
    is($f->add('x'), 1, '... and the handle goes on');
}
for my $case (
    ['an anonymous filter', sub { $CLASS->new(undef, 100) }],
    ['a memfd',             sub { $CLASS->new_memfd('x', 100) }],
    ['a descriptor', sub {
        $CLASS->new_from_fd($CLASS->new_memfd('x', 100)->memfd);
    }],
    ['an image', sub {
        $CLASS->new_from_bytes($CLASS->new(undef, 100)->to_bytes);
    }],
) {
    my ($what, $make) = @$case;
    my $f = $make->();
    is(error_of(sub { $f->unlink }), undef, "unlink of $what: nothing to do");
    is($f->add('x'), 1, '... and it goes on');
}
{
    my $path = fresh();
    my $f    = $CLASS->new($path, 100);
    $f->add('x');
    $f->freeze;
    my $ro = $CLASS->new_readonly($path);
    is(error_of(sub { $ro->unlink }), undef, 'unlink of a read-only filter');
    ok(!-e $path, '... removes the file: it is the folder that is written');
    is($ro->contains('x') . $f->contains('x'), '11', '... both handles go on');
}
{
    my $path = fresh();
    my $f    = $CLASS->new($path, 100);
    symlink $path, "$path.link" or die $!;
    $CLASS->unlink("$path.link");
    ok(!-l "$path.link" && -e $path, 'unlink of a link removes the link');
}

# ---- unlink that fails -------------------------------------------------

mkdir "$dir/folder" or die $!;
croaks('unlink', qr/unlink.*\Q$dir\E\/folder/, sub { $CLASS->unlink("$dir/folder") },
    'unlink of a directory');
ok(-d "$dir/folder", '... leaves it');
{
    my $path = fresh();
    my $f    = $CLASS->new($path, 100);
    unlink $path or die $!;
    mkdir $path or die $!;
    croaks('unlink', qr/unlink.*\Q$path\E/, sub { $f->unlink },
        'unlink of a filter whose path is a directory by now');
}
spew("$dir/plain", '');
croaks('unlink', qr/unlink.*\Q$dir\E\/plain\/x/,
    sub { $CLASS->unlink("$dir/plain/x") }, 'unlink below a file');
for my $case (['undef', undef], ['a NUL', "$dir/a\0b"]) {
    my ($what, $path) = @$case;
    no warnings;
    croaks('unlink', qr/path|unlink/, sub { $CLASS->unlink($path) },
        "unlink of $what");
}
{
    my $folder = "$dir/locked";
    mkdir $folder or die $!;
    my $path = "$folder/x";
    my $f = $CLASS->new($path, 100, 0.01, 0666);
    chmod 0555, $folder or die $!;
    for my $case (['the class', sub { $CLASS->unlink($path) }],
        ['a filter', sub { $f->unlink }]) {
        my ($what, $code) = @$case;
        my $r = as_nobody($code);
        like($r->{died} ? $r->{out} : outcome($r),
            qr/\A\Q$CLASS\E->unlink: .*unlink.*\Q$path\E/s,
            "unlink without the right to, by $what");
        ok(-e $path, '... the file is still there');
    }
    chmod 0755, $folder or die $!;
}

# ---- sync --------------------------------------------------------------

for my $case (
    ['a file',    sub { $CLASS->new(fresh(), 100) }],
    ['a large file', sub { $CLASS->new(fresh(), 1_000_000) }],
    ['anonymous', sub { $CLASS->new(undef, 100) }],
    ['a memfd',   sub { $CLASS->new_memfd('x', 100) }],
    ['a descriptor of a file', sub {
        my $f = $CLASS->new(fresh(), 100);
        open my $fh, '+<', $f->path or die $!;
        $CLASS->new_from_fd(fileno $fh);
    }],
    ['read-only', sub {
        my $f = $CLASS->new(fresh(), 100);
        $f->freeze;
        $CLASS->new_readonly($f->path);
    }],
    ['frozen here', sub { my $f = $CLASS->new(fresh(), 100); $f->freeze; $f }],
) {
    my ($what, $make) = @$case;
    my $f = $make->();
    $f->add('x') unless $f->readonly;
    my $r = eval { my @got = $f->sync; scalar @got };
    ok(defined $r, "sync: $what") or diag $@;
    is($f->contains('x'), $f->readonly ? 0 : 1, '... changes nothing');
}

done_testing;
