# Random walks over all operations, each answer and the whole table compared
# with the model: k from 1 to 32 in the smallest table, where everything
# collides, and larger ones.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFRandom;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir      = File::Temp->newdir;
my @backings = qw(anonymous file memfd);
my $seed     = 7000;

sub walks {
    my ($label, @walk) = @_;
    my @off;
    my $first = $seed + 1;
    for my $walk (@walk) {
        my ($capacity, $fp_rate, $pool) = @$walk;
        $seed++;
        my $off = CBFRandom::walk(
            seed     => $seed,
            capacity => $capacity,
            fp_rate  => $fp_rate,
            backing  => $backings[$seed % @backings],
            dir      => "$dir",
            steps    => 120,
            pool     => $pool,
        );
        push @off, $off if defined $off;
    }
    is(scalar @off, 0, "$label (seeds $first to $seed)") or diag(join "\n", @off);
}

# A pool of three is mostly about one item's counters, forty fill the table.
walks("k = $_, 64 counters", [1, 2**-$_, 3], [1, 2**-$_, 40]) for 1 .. 32;
walks('128 counters', map { [12, 2**-$_, 20] } 2 .. 4);
walks('1024 counters', [100, 0.01, 60], [400, 0.3, 60]);
walks('4096 counters', [80, 1e-9, 200], [2000, 0.5, 200]);

done_testing;
