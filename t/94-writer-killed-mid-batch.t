# A process killed with SIGKILL while it holds the write lock must not block the
# others for good; the next contender recovers the lock and the filter stays usable.
use strict;
use warnings;
use Test::More;
use POSIX ();
use Time::HiRes ();
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir  = File::Temp->newdir;
my $path = "$dir/killed.cbf";

# Many probes per item, so that nearly all the time of a batch is spent under the write lock.
my @geometry = (1_000_000, 1e-9);
my $f = $CLASS->new($path, @geometry);
my @kept = map { "kept-$_" } 1 .. 200;
$f->add_many(\@kept);

my $batch  = [map { "batch-$_" } 1 .. 40_000];
my $rounds = 4;
$f->add_many($batch);
for my $round (1 .. $rounds) {
    pipe my $busy, my $begun or die "pipe: $!";
    my $pid = fork();
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        alarm limit(20);
        my $h = $round % 2 ? $f : $CLASS->new($path, @geometry);   # inherited handle, or one of its own
        close $begun;
        $h->add_many($batch) while 1;
        POSIX::_exit(0);
    }
    close $begun;
    sysread $busy, my $nothing, 1;    # ends when the child has its handle
    Time::HiRes::sleep(0.05 + rand 0.05);
    kill 'KILL', $pid;
    waitpid $pid, 0;

    # several contenders at once find the dead owner
    my @waiters;
    for my $w (1 .. 3) {
        my $p = fork();
        die "fork: $!" unless defined $p;
        if (!$p) {
            alarm limit(8);
            my $ok = eval { $f->add("after-$round-$w"); $f->contains('kept-1') && $f->contains("after-$round-$w") };
            POSIX::_exit($ok ? 0 : 1);
        }
        push @waiters, $p;
    }
    my @status = map { waitpid $_, 0; $? } @waiters;
    is("@status", '0 0 0', "round $round: three other processes go on after the kill");
    must_work(sub { $f->add("parent-$round"); $f->remove("parent-$round"); $f->contains('kept-2') or die; 1 },
        "round $round: add, remove and count work");
}

must_work(sub {
    my $missing = grep { !$f->contains($_) } @kept, map { my $r = $_; map { "after-$r-$_" } 1 .. 3 } 1 .. $rounds;
    die "$missing items lost" if $missing;
    1;
}, 'nothing added before or after the kills is lost');
must_work(sub { $f->clear; $f->add('x'); $f->count_of('x') == 1 or die 'wrong count'; 1 }, 'clear and add work on the recovered filter');

done_testing;
