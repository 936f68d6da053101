# A 4-bit counter that reaches 15 must stick there, and its overflow must not
# leak into the neighbouring counter that shares the byte.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my @probe = map { "probe-$_" } 1 .. 3000;

for my $geom ([3, 0.01], [6, 0.1], [200, 0.01]) {
    my ($cap, $rate) = @$geom;
    my $label = "capacity $cap";
    my $bad   = 0;
    for my $key (map { "hot-$_" } 1 .. 12) {
        my $f = $CLASS->new(undef, $cap, $rate);
        $bad++ if $f->add($key) != 1;
        my $set = $f->stats->{counters_set};
        for my $n (2 .. 15) {
            $bad++ if $f->add($key) != 0 || $f->count_of($key) != $n;
        }
        my @at15 = map { $f->count_of($_) } @probe;
        for (16 .. 60) {
            $bad++ if $f->add($key) != 0 || $f->count_of($key) != 15;
        }
        my @at60 = map { $f->count_of($_) } @probe;
        $bad++ if "@at15" ne "@at60";                      # nothing else moved
        $bad++ if $f->stats->{counters_set} != $set;       # no carry into a neighbour

        for (1 .. 40) {                                    # stuck: still "removed" but never lowered
            $bad++ if $f->remove($key) != 1 || $f->count_of($key) != 15 || $f->contains($key) != 1;
        }
        my @after = map { $f->count_of($_) } @probe;
        $bad++ if "@at15" ne "@after";

        # another item that owns at least one untouched counter still counts up and down exactly
        my ($other) = grep { $f->count_of($_) == 0 } map { "cold-$_" } 1 .. 200;
        if (defined $other) {
            $f->add($other) for 1 .. 3;
            $bad++ if $f->count_of($other) != 3;
            for my $left (2, 1, 0) {
                $bad++ if $f->remove($other) != 1 || $f->count_of($other) != $left;
            }
            $bad++ if $f->contains($other) || $f->remove($other) != 0;
            $bad++ if $f->stats->{counters_set} != $set;
        }
        $f->clear;
        $bad++ if $f->contains($key) || $f->stats->{counters_set} != 0;
    }
    is($bad, 0, "$label: counters saturate at 15, stick, and leave their neighbours alone");
}

# The step just below the ceiling is still reversible.
my $f = $CLASS->new(undef, 100);
$f->add('x') for 1 .. 14;
is($f->count_of('x'), 14, '14 adds are counted as 14');
is($f->remove('x'), 1,    'a removal below the ceiling is done');
is($f->count_of('x'), 13, '... and lowers the count');
$f->add('x') for 1 .. 2;
is($f->count_of('x'), 15, 'two more reach the ceiling');
$f->remove('x');
is($f->count_of('x'), 15, '... from which a removal no longer lowers it');

done_testing;
