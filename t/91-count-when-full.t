# The distinct-count estimate must stay a sane number up to and including the moment
# when every counter is nonzero (the formula's logarithm has no value there).
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

for my $geom ([10, 0.01], [4, 0.5], [30, 0.001]) {
    my ($cap, $rate) = @$geom;
    my $f = $CLASS->new(undef, $cap, $rate);
    my ($m, $k) = ($f->counters, $f->hashes);
    is($f->count, 0, "capacity $cap: an empty filter counts 0");

    my ($last, $drop, $odd, $far, $full) = (0, undef, undef, undef, 0);
    my $i = 0;
    while ($i < 60_000) {
        $f->add('fill-' . ++$i);
        my $s = $f->stats;
        my $c = $f->count;
        $odd = "'$c' with $s->{counters_set}/$m set"
            if !defined $odd && (!defined $c || "$c" !~ /\A[0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]+)?\z/i);
        last if defined $odd;
        $drop = "from $last to $c with $s->{counters_set}/$m set" if !defined $drop && $c < $last;
        if ($s->{counters_set} < $m) {
            my $want = -($m / $k) * log(1 - $s->{counters_set} / $m);
            $far = "$c, the formula gives $want" if !defined $far && abs($c - $want) > 1;
        }
        $odd = "stats says '$s->{count}', count says '$c'" if !defined $odd && $s->{count} != $c;
        $last = $c;
        if ($s->{counters_set} == $m) { $full = 1; last }
    }
    ok($full, "capacity $cap: the filter could be filled completely");
    ok(!defined $odd,  "capacity $cap: count is always a plain nonnegative number") or diag($odd);
    ok(!defined $far,  "capacity $cap: count follows the documented formula below saturation") or diag($far);
    ok(!defined $drop, "capacity $cap: the estimate never drops while counters only get set") or diag("count fell $drop");
    is($f->stats->{fill_ratio}, 1, "capacity $cap: fill_ratio is 1 when full");
    cmp_ok($f->count, '>=', ($m / $k) * log($m) - 1, "capacity $cap: a full filter is not reported as emptier than an almost full one");
    $f->clear;
    is($f->count, 0, "capacity $cap: clear brings the estimate back to 0");
}

done_testing;
