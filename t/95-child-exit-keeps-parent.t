# A forked child that exits (and so destroys its copy of the handle) must not remove
# the file, close the parent's descriptor or disturb the parent's mapping.
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
my %make = (
    file      => sub { $CLASS->new("$dir/fork.cbf", 1000) },
    anonymous => sub { $CLASS->new(undef, 1000) },
    memfd     => sub { $CLASS->new_memfd('fork', 1000) },
);

for my $kind (sort keys %make) {
    my $f = $make{$kind}->();
    $f->add('parent');
    my $fd = $f->memfd;

    for my $way ('exit', 'undef then exit', 'die', 'grandchild') {
        my $pid = fork();
        die "fork: $!" unless defined $pid;
        if (!$pid) {
            alarm limit(10);
            open STDERR, '>', '/dev/null';
            $f->add("child-$way");
            if ($way eq 'undef then exit') { undef $f }
            elsif ($way eq 'die')          { die "on purpose\n" }
            elsif ($way eq 'grandchild') {
                my $p = fork();
                exit 9 unless defined $p;
                if (!$p) { $f->add('grand'); exit 0 }
                waitpid $p, 0;
                exit($? ? 8 : 0);
            }
            exit 0;    # the ordinary way out: global destruction runs
        }
        waitpid $pid, 0;
        is($? & 127, 0, "$kind, child ends by $way: no crash in the child");
        is($f->contains('parent'), 1, "$kind, child ends by $way: the parent's item is there");
        is($f->contains("child-$way"), 1, "$kind, child ends by $way: the child's add is seen");
        is($f->add("again-$way"), 1, "$kind, child ends by $way: the parent can still add");
    }
    is($f->contains('grand'), 1, "$kind: the grandchild's add is seen");
    is($f->count_of('parent'), 1, "$kind: nothing was counted twice");

    if ($kind eq 'file') {
        ok(-e "$dir/fork.cbf", 'file: the backing file is still there');
        my $g = $CLASS->new("$dir/fork.cbf", 1000);
        is($g->contains('child-exit'), 1, 'file: a fresh handle sees everything');
        undef $g;
        undef $f;
        ok(-e "$dir/fork.cbf", 'file: destroying the last handle does not remove the file either');
    }
    elsif ($kind eq 'memfd') {
        is($f->memfd, $fd, 'memfd: the descriptor number is unchanged');
        ok(-e "/proc/self/fd/$fd", 'memfd: the descriptor is still open in the parent');
        my $g = eval { $CLASS->new_from_fd($fd) };
        ok($g && $g->contains('child-exit'), 'memfd: it can still be reopened') or diag $@;
    }
}

done_testing;
