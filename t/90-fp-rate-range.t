# A false-positive rate outside (0,1) must be refused, and the odd but legal
# extremes must give a usable filter with the documented geometry.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $inf = 9**9**9;
my $nan = $inf - $inf;

# A user who means "5 percent" writes 5, or swaps capacity and rate.
for my $bad (0, -0.0, 1, 1.0000001, 2, 5, 1000, -0.01, -1, $inf, -$inf, $nan, 'nan', 'inf') {
    no warnings;
    must_croak(sub { $CLASS->new(undef, 1000, $bad); 'made' },          "new refuses fp_rate $bad");
    must_croak(sub { $CLASS->new_memfd('case', 1000, $bad); 'made' },   "new_memfd refuses fp_rate $bad");
}
must_croak(sub { $CLASS->new(undef, 0.01, 1000); 'made' }, 'capacity and rate swapped: refused');

is(eval { $CLASS->new(undef, 1000)->fp_rate }, 0.01, 'the default rate is 0.01');

# rate => documented k = clamp(round(-log2 rate), 1, 32)
my %k = (
    0.999999 => 1, 0.99 => 1, 0.9 => 1, 0.5 => 1, 0.25 => 2, 0.1 => 3, 0.05 => 4, 0.03 => 5,
    0.02 => 6, 0.01 => 7, 0.001 => 10, 1e-6 => 20, 1e-9 => 30, 1e-10 => 32, 1e-15 => 32, 1e-300 => 32,
    5e-324 => 32,
);
for my $rate (sort { $b <=> $a } keys %k) {
    for my $cap (1, 3, 1000) {
        my $r = guarded(8, sub {
            my $f = $CLASS->new(undef, $cap, $rate);
            $f->add("item-$_") for 1 .. $cap;
            my $miss = grep { !$f->contains("item-$_") } 1 .. $cap;
            join ' ', $f->hashes, $f->counters, $miss;
        });
        my ($hashes, $m, $miss) = split ' ', $r->{ok} ? $r->{out} : '-1 -1 -1';
        is($hashes, $k{$rate}, "rate $rate capacity $cap: k") or diag(outcome($r));
        my $need = $cap * $k{$rate} / log(2);
        my $want = 64;
        $want *= 2 while $want < $need;
        is($m, $want, "rate $rate capacity $cap: m is the next power of two, at least 64");
        is($miss, 0, "rate $rate capacity $cap: everything added is found");
    }
}

done_testing;
