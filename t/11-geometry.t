# From capacity and rate to probes and counters: against the formula, on both
# sides of every step of it, in every way to ask.
use strict;
use warnings;
use Test::More;
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

sub shown { my ($g) = @_; join ' ', map { "$_=$g->{$_}" } sort keys %$g }

# ---- hand arithmetic: a few that anybody can check ---------------------

# capacity, rate, k, m.  1000 * 7 / ln 2 = 10098.9, so 16384, and so on.
my @by_hand = (
    [1,         0.5,    1,  64],
    [44,        0.5,    1,  64],          # 63.5 counters are needed
    [45,        0.5,    1,  128],         # 64.9
    [1000,      0.01,   7,  16384],
    [1_000_000, 0.01,   7,  16_777_216],  # 10,098,866
    [1_000_000, 0.001,  10, 16_777_216],  # 14,426,951
    [1,         1e-300, 32, 64],
);
for my $case (@by_hand) {
    my ($capacity, $rate, $k, $m) = @$case;
    is(shown($CLASS->geometry($capacity, $rate)),
        "counters=$m hashes=$k mmap_size=" . (16768 + $m / 2),
        "capacity $capacity, rate $rate");
}
is(shown($CLASS->geometry(1000)), shown($CLASS->geometry(1000, 0.01)),
    'the default rate of geometry is 0.01');
is(shown($CLASS->geometry(1000, undef)), shown($CLASS->geometry(1000, 0.01)),
    '... also for undef');

# ---- k: both sides of each step ----------------------------------------

# k changes from i to i + 1 where -log2(rate) is i + 1/2.
my @off;
for my $i (1 .. 31) {
    my $step = 2**-($i + 0.5);
    for my $rate ($step * (1 + 1e-9), $step * (1 - 1e-9)) {
        my $want = $rate > $step ? $i : $i + 1;
        my $got  = $CLASS->geometry(10, $rate)->{hashes};
        push @off, "rate $rate: $got, expected $want" if $got != $want;
        push @off, "rate $rate: the model is wrong"
            if CBFModel::hashes_for($rate) != $want;
    }
}
is("@off", '', 'k is the rounded -log2 of the rate, on both sides of a step');

# ---- m: both sides of each power of two --------------------------------

# The largest capacity that fits m counters is floor(m ln 2 / k).
@off = ();
for my $k (1, 2, 3, 7, 13, 20, 32) {
    for my $bits (6 .. 38) {
        my $m    = 2**$bits;
        my $most = POSIX::floor($m * log(2) / $k);
        next if $most < 1;
        for my $extra (0, 1) {
            my $want = $extra ? 2 * $m : $m;
            next if $want > 2**38;
            my $got = $CLASS->geometry($most + $extra, 2**-$k)->{counters};
            push @off, 'capacity ' . ($most + $extra) . " k $k: $got"
                if $got != $want;
        }
    }
}
is("@off", '', 'm is the next power of two, on both sides of a step');

# One item more than the largest table holds.
for my $k (1, 7, 32) {
    my $most = POSIX::floor(2**38 * log(2) / $k);
    is($CLASS->geometry($most, 2**-$k)->{mmap_size}, 16768 + 2**37,
        "k $k: the largest table of all");
    croaks('geometry', qr/too large/,
        sub { $CLASS->geometry($most + 1, 2**-$k) }, "k $k: one item more");
    croaks('new', qr/too large/,
        sub { $CLASS->new(undef, $most + 1, 2**-$k) }, "k $k: ... in new");
    croaks('new_memfd', qr/too large/,
        sub { $CLASS->new_memfd('m', $most + 1, 2**-$k) },
        "k $k: ... in new_memfd");
}

# ---- a filter is what geometry said ------------------------------------

my $seed = 20_250;
srand $seed;
@off = ();
for (1 .. 60) {
    my $capacity = 1 + int exp rand log 20_000;
    my $rate     = exp -rand 25;
    $rate = 0.5 if $rate >= 1;
    my $want = CBFModel->geometry($capacity, $rate);
    my $said = $CLASS->geometry($capacity, $rate);
    push @off, "geometry($capacity, $rate): " . shown($said)
        if shown($said) ne shown($want);
    my $f = $CLASS->new(undef, $capacity, $rate);
    my $is = { counters => $f->counters, hashes => $f->hashes,
        mmap_size => $f->stats->{mmap_size} };
    push @off, "new($capacity, $rate): " . shown($is)
        if shown($is) ne shown($want);
    push @off, "new($capacity, $rate) says " . $f->capacity . ' ' . $f->fp_rate
        if $f->capacity != $capacity || $f->fp_rate != $rate;
}
is("@off", '', "random geometries are the formula's (seed $seed)");

# ---- numbers in other clothes ------------------------------------------

for my $same (['a string', '1000'], ['an exponent', '1e3'], [1e3, 1e3],
    ['a fraction, which is cut', 1000.99], ['a fraction as text', '1000.99'],
    ['spaces before it', ' 1000']) {
    my ($what, $capacity) = @$same;
    is($CLASS->new(undef, $capacity)->capacity, 1000, "capacity: $what");
}
is($CLASS->new(undef, 10, '0.25')->hashes, 2, 'a rate as text');
is($CLASS->new(undef, 10, '25e-2')->fp_rate, 0.25, '... with an exponent');
is($CLASS->geometry('1e3', '1e-2')->{counters}, 16384, 'geometry: the same');

done_testing;
