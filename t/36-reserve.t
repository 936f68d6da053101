# Blocks for the whole file: reserve gives them, or says that there are none.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my $dir   = File::Temp->newdir;
my $path  = "$dir/large.cbf";

sub blocks { my @st = stat $_[0]; return 512 * $st[12] }

my $f = $CLASS->new($path, 1_000_000, 0.01);
my $size = -s $path;
cmp_ok(blocks($path), '<', $size / 10, 'a new file is sparse');
cmp_ok(blocks($path), '>=', 16_768, '... but for what stands before the counters');
$f->add('before');
is(scalar(my @none = $f->reserve), 0, 'reserve returns nothing');
cmp_ok(blocks($path), '>=', $size, 'then the file has all its blocks');
is(-s $path, $size, '... and the size it had');
is($f->contains('before') . $f->contains('other') . $f->stats->{items}, '101',
    '... and nothing in it has changed');
$f->reserve;
pass('a second time is nothing');

for my $case (['anonymous', $CLASS->new(undef, 10)], ['memfd', $CLASS->new_memfd('r', 10)]) {
    my ($what, $g) = @$case;
    $g->add('x');
    ok(eval { $g->reserve; 1 }, "$what: nothing to do, or memory") or diag $@;
    is($g->contains('x'), 1, '... and it still works');
}

# A process that has closed its descriptors: their numbers may be other files by
# now, which are not ours to fill.
{
    my @other = map { "$dir/other-$_" } 1 .. 8;
    my $g = $CLASS->new("$dir/lost.cbf", 100_000);
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        POSIX::close($_) for 3 .. 60;
        my @open = map { open my $h, '+>', $_ or POSIX::_exit(2); $h } @other;
        eval { $g->reserve };
        POSIX::_exit(0);
    }
    waitpid $pid, 0;
    is($?, 0, 'reserve where descriptors are other files by now');
    is(join(' ', map { -s $_ ? 'filled' : -e _ ? 'empty' : 'missing' } @other),
        join(' ', ('empty') x @other), '... leaves those alone');
    is($g->add('x'), 1, '... and the filter works');
}

# A limit on the size of the file system's files is no limit here: the file has
# its size.  What is refused is a frozen filter.
$f->freeze;
like(eval { $f->reserve; '' } // $@, qr/\A\Q$CLASS\E->reserve: .*read-only/,
    'a frozen one is refused');

done_testing;
