# What each call for one item answers, by hand: exact values, exact spelling of
# "no", counters that stop at the top, what a careless removal does, and how
# many operations are counted.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

# ---- yes and no --------------------------------------------------------

my $f = $CLASS->new(undef, 1000);
for my $case (
    [contains      => 0], [count_of => 0], [remove => 0],
    [add           => 1], [add      => 0],
    [contains      => 1], [count_of => 2],
    [add_if_absent => 0], [count_of => 2],
    [remove        => 1], [count_of => 1], [contains => 1],
    [remove        => 1], [count_of => 0], [contains => 0],
    [remove        => 0], [count_of => 0],
    [add_if_absent => 1], [count_of => 1],
) {
    my ($method, $want) = @$case;
    my @got = $f->$method('apple');
    is("@got", $want, "$method of one item answers $want") or diag scalar @got;
    is(scalar @got, 1, '... and that alone');
}
is($f->contains('pear'), 0, 'another item is not in it');
for my $method (qw(frozen readonly)) {
    is($f->$method, '0', "$method: no is 0");
}
{
    my @got = $f->clear;
    is(scalar @got, 0, 'clear returns nothing');
    my $got = $f->clear;
    is($got, undef, '... undef where one value is wanted');
}

# ---- operations --------------------------------------------------------

my $ops = $f->stats->{ops};
for my $case (
    [add => 'x'], [add => 'x'], [remove => 'x'], [remove => 'never'],
    [add_if_absent => 'x'], [add_if_absent => 'y'], [add_many => []],
    [add_many => [1 .. 50]], [remove_many => []], [remove_many => [1 .. 3]],
    [add_if_absent_many => []], [add_if_absent_many => ['x', 'z']], ['clear'],
    [merge => $f],
) {
    my ($method, @args) = @$case;
    my @got = $f->$method(@args);
    is($f->stats->{ops}, ++$ops, "$method is one operation");
}
for my $case (
    [contains => 'x'], [count_of => 'x'], ['count'], ['histogram'], ['stats'],
    [contains_many => ['x']], [count_of_many => ['x']], [present => ['x']],
    [absent => ['x']], ['estimated_fp_rate'], ['to_bytes'], ['sync'],
    ['verify'], ['capacity'], ['path'],
) {
    my ($method, @args) = @$case;
    my @got = $f->$method(@args);
    is($f->stats->{ops}, $ops, "$method is none");
}
for my $case (
    [add => "\x{2603}"], [add_many => 'text'], [add_many => ['a', "\x{2603}"]],
    [merge => $CLASS->new(undef, 5)], [remove => "\x{2603}"],
) {
    my ($method, @args) = @$case;
    ok(defined error_of(sub { $f->$method(@args) }), "$method croaks");
    is($f->stats->{ops}, $ops, '... and is no operation');
}

# ---- the top -----------------------------------------------------------

$f->clear;
my $model = CBFModel->new(1000);
for my $n (1 .. 20) {
    is($f->add('many'), $n == 1 ? 1 : 0, "add number $n");
    $model->add('many');
    is($f->count_of('many'), $n > 15 ? 15 : $n, '... is counted up to 15');
}
table_is($f, $model, 'only the counters of that item moved');
is($f->stats->{saturated}, 7, 'its seven counters are at the top');
for my $n (1 .. 20) {
    is($f->remove('many'), 1, "removal number $n is one of a present item");
    is($f->count_of('many'), 15, '... and leaves 15');
}
table_is($f, $model, 'counters at the top stay there');

# An item that shares counters with it loses only its own: found by the model.
my %hot = map { $_ => 1 } $model->positions('many');
my ($near) = grep {
    my $shared = grep { $hot{$_} } $model->positions($_);
    $shared > 0 && $shared < 7;
} map { "near $_" } 1 .. 5000;
ok(defined $near, 'an item that shares some of them exists');
is($f->add($near), 1, 'it is new all the same');
is($f->count_of($near), 1, '... counted by the counters of its own');
is($f->remove($near), 1, '... and removable');
table_is($f, $model, '... down to where the table was');

# ---- a careless removal ------------------------------------------------

# 64 counters, 2 probes: some item that was never added looks present because
# two others cover its counters.  Removing it takes theirs away.
my $tiny  = $CLASS->new(undef, 1, 0.25);
my $small = CBFModel->new(1, 0.25);
is($tiny->counters . ' ' . $tiny->hashes, '64 2', 'a tiny table');
for my $item (qw(one two three four five)) {
    $_->add($item) for $tiny, $small;
}
my ($ghost) = grep { $small->contains($_) } map { "ghost $_" } 1 .. 5000;
is($tiny->contains($ghost), 1, 'an item never added looks present');
is($tiny->remove($ghost), 1, '... and can be removed');
$small->remove($ghost);
table_is($tiny, $small, '... at the cost of the counters it shares');
my @lost = grep { !$tiny->contains($_) } qw(one two three four five);
my @want = grep { !$small->contains($_) } qw(one two three four five);
is("@lost", "@want", '... so that the items lost are those the model lost');
isnt("@lost", '', '... and there are some');

# Adds and removals in balance leave nothing, whatever the order.
my $seed = 31;
srand $seed;
$tiny->clear;
my ($refused, @in) = (0);
for (1 .. 400) {
    if (@in < 5 && (!@in || rand() < 0.5)) {
        push @in, 'i' . int rand 1000;
        $tiny->add($in[-1]);
    }
    else {
        my $out = splice @in, int rand @in, 1;
        $refused++ if $tiny->remove($out) != 1;
    }
}
is($refused, 0, "what was added can be removed (seed $seed)");
is(scalar(grep { !$tiny->contains($_) } @in), 0,
    "nothing that is in is missing (seed $seed)");
is($tiny->remove($_), 1, 'the rest goes') for @in;
is($tiny->stats->{counters_set}, 0, 'adds and removals in balance leave 0');

done_testing;
