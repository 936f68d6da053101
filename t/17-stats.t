# stats and the estimates: exactly the documented keys, each against the model
# at every stage of a filter's life, and the single methods in agreement.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir  = File::Temp->newdir;
my @keys = qw(capacity count counters counters_set estimated_fp_rate fill_ratio
    fp_rate frozen hashes items mmap_size ops readonly recovered saturated);

# ---- the keys, and an empty filter -------------------------------------

for my $case (['anonymous', undef], ['file', "$dir/stats.cbf"]) {
    my ($what, $path) = @$case;
    my $f = $CLASS->new($path, 500, 0.02);
    my $s = $f->stats;
    is(ref $s, 'HASH', "$what: stats is a hash reference");
    is(join(' ', sort keys %$s), "@keys", '... with the documented keys');
    is(join(' ', map { $s->{$_} } qw(capacity count counters counters_set
        estimated_fp_rate fill_ratio fp_rate frozen hashes items mmap_size ops
        readonly recovered saturated)),
        '500 0 8192 0 0 0 0.02 0 6 0 20864 0 0 0 0',
        '... and by hand, for an empty filter');
    stats_are($f, CBFModel->new(500, 0.02), '... which the model confirms');
    $s->{count} = 99;
    is($f->stats->{count}, 0, '... a new hash each time');
}
for my $call (
    sub { my @got = $CLASS->new(undef, 5)->stats; scalar @got },
    sub { my @got = $CLASS->new(undef, 5)->count; scalar @got },
    sub { my @got = $CLASS->new(undef, 5)->histogram; scalar @got },
) {
    is($call->(), 1, 'one value in list context');
}

# ---- through a life ----------------------------------------------------

for my $geometry ([500, 0.02], [1, 0.5], [1, 1e-12], [20, 0.3]) {
    my ($capacity, $rate) = @$geometry;
    my $label = "capacity $capacity, rate $rate";
    my $f     = $CLASS->new(undef, $capacity, $rate);
    my $model = CBFModel->new($capacity, $rate);
    my @off;
    my $look = sub {
        my ($when) = @_;
        push @off, "$when: stats" unless stats_are($f, $model);
        my $s = $f->stats;
        for my $method (qw(count estimated_fp_rate capacity fp_rate counters
            hashes frozen readonly)) {
            push @off, "$when: $method is " . $f->$method
                if $f->$method ne $s->{$method};
        }
        my $seen = $f->histogram;
        push @off, "$when: histogram"
            if "@$seen" ne join ' ', @{ $model->histogram };
        my $sum = 0;
        $sum += $_ for @$seen;
        push @off, "$when: the histogram adds up to $sum"
            if $sum != $f->counters || @$seen != 16;
        push @off, "$when: saturated" if $seen->[15] != $s->{saturated};
    };
    for my $i (1 .. 200) {
        $_->add("life $i") for $f, $model;
        $look->("add $i") if $i < 20 || $i % 20 == 0;
    }
    for my $i (1 .. 100) {
        $_->remove("life $i") for $f, $model;
        $look->("remove $i") if $i % 20 == 0;
    }
    $_->add_many([('top') x 20]) for $f, $model;
    $look->('one item at the top');
    $_->remove('top') for $f, $model;
    $look->('removed there');
    $model->merge($model);
    $f->merge($f);
    $look->('doubled');
    $_->clear for $f, $model;
    $look->('cleared');
    is("@off[0 .. ($#off > 4 ? 4 : $#off)]", '', "$label: from empty to cleared");
}

# ---- items: adds minus removes -----------------------------------------

{
    my $f = $CLASS->new(undef, 1000);
    my $seed = 17;
    srand $seed;
    my ($items, @in, @off) = (0);
    for my $step (1 .. 600) {
        if (!@in || rand() < 0.6) {
            my $item = 'i' . int rand 400;
            $f->add($item);
            push @in, $item;
        }
        else {
            $f->remove(splice @in, int rand @in, 1);
        }
        my $got = $f->stats->{items};
        push @off, "step $step: $got" if $got != @in;
    }
    is($f->stats->{saturated}, 0, 'nothing is saturated');
    is("@off", '', "items is exactly adds minus removes (seed $seed)");
}

# ---- the estimate ------------------------------------------------------

# Good to a few percent while the filter is used as configured; checked against
# exact numbers of distinct items.
for my $rate (0.1, 0.01, 0.0001) {
    my $f = $CLASS->new(undef, 5000, $rate);
    for my $thousand (1 .. 5) {
        $f->add_many([map { "$thousand-$_" } 1 .. 1000]) for 1, 2;
        my $is = 1000 * $thousand;
        cmp_ok(abs($f->count - $is), '<', 0.05 * $is,
            "rate $rate: about $is distinct items");
    }
    # a wrong yes about as often as estimated, which is at most as configured
    my $wrong = $f->contains_many([map { "stranger $_" } 1 .. 20_000]);
    my $said  = $f->estimated_fp_rate;
    cmp_ok(abs($wrong - 20_000 * $said), '<', 5 + 6 * sqrt(20_000 * $said),
        "rate $rate: $wrong wrong answers of 20000, estimated $said");
    cmp_ok($said, '<', 1.5 * $rate, '... within what was configured');
}

# The estimate at both ends of the smallest table, for every number of nonzero
# counters: one probe an item, so an item is a counter.
{
    my $f = $CLASS->new(undef, 1, 0.5);
    my ($set, $last, @off) = (0, 0);
    for (my $i = 0; $set < 64; $i++) {
        next if $f->contains($i);
        $f->add($i);
        $set++;
        my $want = CBFModel::estimate($set, 64, 1);
        push @off, "$set set: " . $f->count . ", expected $want"
            if $f->count != $want;
        push @off, "$set set: falls" if $f->count < $last;
        $last = $f->count;
    }
    is("@off", '', 'the estimate for each number of nonzero counters');
    like($last, qr/\A[0-9]+\z/, 'a full table has a plain number too');
    is($f->stats->{fill_ratio}, '1', '... and is full');
    is($f->estimated_fp_rate, '1', '... and always says yes');
}

done_testing;
