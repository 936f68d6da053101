# Batches: both contexts, order, repeats, holes, aliases, tied arrays, empty and
# large lists.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

{
    package Local::List;    # an array that computes its elements
    sub TIEARRAY  { my ($class, @all) = @_; bless { all => [@all], n => 0 }, $class }
    sub FETCHSIZE { scalar @{ $_[0]{all} } }
    sub FETCH     { $_[0]{n}++; $_[0]{all}[$_[1]] }
    sub STORE     { die 'stored into' }
    sub EXISTS    { 1 }
}

watchdog;

my $f = $CLASS->new(undef, 1000, 1e-6);
sub fresh { $f->clear; $f->add_many([qw(b d b d d)]); return }
fresh();
my @ask = qw(a b c d b);

# ---- reads -------------------------------------------------------------

is(join(' ', $f->contains_many(\@ask)), '0 1 0 1 1', 'contains_many, list');
is(scalar $f->contains_many(\@ask), 3, '... scalar: how many are present');
is(join(' ', $f->count_of_many(\@ask)), '0 2 0 3 2', 'count_of_many, list');
is(scalar $f->count_of_many(\@ask), 3, '... scalar: how many are above 0');
is(join(' ', $f->present(\@ask)), 'b d b', 'present, list: in order, repeats too');
is(scalar $f->present(\@ask), 3, '... scalar: their number');
is(join(' ', $f->absent(\@ask)), 'a c', 'absent, list');
is(scalar $f->absent(\@ask), 2, '... scalar: their number');
is("@ask", "a b c d b", 'the array is left alone');

for my $method (qw(contains_many count_of_many present absent
    add_if_absent_many)) {
    my @got = $f->$method([]);
    is(scalar @got, 0, "$method of nothing, list: nothing");
    is(scalar $f->$method([]), '0', '... scalar: 0');
}
for my $method (qw(add_many remove_many)) {
    is($f->$method([]), '0', "$method of nothing: 0");
    my @got = $f->$method([]);
    is("@got", '0', '... in list context too');
}

# ---- present and absent give the items, not copies ---------------------

{
    my @items = qw(a b c d);
    my @there = map { \$_ } $f->present(\@items);
    is("@there", "@{[\($items[1], $items[3])]}", 'present gives the elements');
    my @not = map { \$_ } $f->absent(\@items);
    is("@not", "@{[\($items[0], $items[2])]}", 'absent gives the elements');
    $_ .= '!' for $f->present(\@items);
    is("@items", 'a b! c d!', '... so that they can be changed in place');
    my @kept = $f->absent(\@items);
    $kept[0] = 'changed';
    is($items[0], 'a', '... but assigned to an array they are copies');
}
{
    my @found = $f->present([map { "$_" } qw(a b d)]);
    is("@found", 'b d', 'items of an array that is gone are still good');
    my $deep = ['b'];
    is_deeply([$f->absent([$deep])], [$deep], 'a reference comes back as one');
    is(ref(($f->absent([$deep]))[0]), 'ARRAY', '... not as its text');
}

# ---- mutators ----------------------------------------------------------

fresh();
is($f->remove_many(\@ask), 3, 'remove_many: each b and the d, in order');
is(join(' ', $f->count_of_many(\@ask)), '0 0 0 2 0', '... one for each time');
is($f->remove_many([qw(b d d d)]), 2, '... as long as they are there');
is($f->stats->{counters_set}, 0, '... and then all is gone');

fresh();
is(join(' ', $f->add_if_absent_many([qw(a b c a d e)])), 'a c e',
    'add_if_absent_many, list: what it added, once');
is(join(' ', $f->count_of_many([qw(a b c d e)])), '1 2 1 3 1',
    '... and nothing else moved');
is(scalar $f->add_if_absent_many([qw(g a g h)]), 2, '... scalar: how many');
is(join(' ', $f->add_if_absent_many([qw(g a g h)])), '', '... none, list');
is(scalar $f->add_if_absent_many([qw(g a g h)]), '0', '... none, scalar: 0');

# ---- holes and undef ---------------------------------------------------

for my $case (['undef', [undef, 'x']], ['a hole', do { my @h; $h[1] = 'x'; \@h }]) {
    my ($what, $list) = @$case;
    for my $try (
        [add_many => 2], [contains_many => '1 1'], [count_of_many => '1 1'],
        [present => ' x'], [remove_many => 2], [absent => ' x'],
        [add_if_absent_many => ' x'],
    ) {
        my ($method, $want) = @$try;
        my @warned;
        local $SIG{__WARN__} = sub { push @warned, @_ };
        my @got = $f->$method($list);
        is(scalar @warned, 1, "$method with $what warns once");
        like($warned[0], qr/\AUse of uninitialized value/, '... as perl does');
        no warnings;
        is("@got", $want, '... and takes it as the empty string');
    }
    is($f->contains(''), 1, "$what was added as the empty string");
    $f->clear;
}

# ---- tied arrays -------------------------------------------------------

fresh();
for my $try (
    [contains_many => '0 1 0 1 1'], [count_of_many => '0 2 0 3 2'],
    [present => 'b d b'], [absent => 'a c'],
    [add_if_absent_many => 'a c'], [remove_many => 5], [add_many => 3],
) {
    my ($method, $want) = @$try;
    my $tied = tie my @list, 'Local::List', @ask;
    my @got = $f->$method(\@list);
    is("@got", $want, "$method of a tied array");
    is($tied->{n}, 5, '... fetches each element once');
}
for my $method (qw(present absent add_if_absent_many)) {
    fresh();
    my $tied = tie my @list, 'Local::List', qw(b a);
    my $text = join ' ', map { "$_$_" } $f->$method(\@list);
    is($text, $method eq 'present' ? 'bb' : 'aa', "$method of a tied array");
    is($tied->{n}, 2, '... gives what was fetched, not a look at it later');
}

# ---- large -------------------------------------------------------------

# 100,000 items, half of them there.  At this rate a false yes among them is as
# good as impossible, and the list is the same each time.
my $big  = $CLASS->new(undef, 100_000, 1e-9);
my @all  = map { "large $_" } 1 .. 100_000;
my @half = @all[grep { $_ % 2 } 0 .. $#all];
my %half = map { $_ => 1 } @half;
is($big->add_many(\@half), 50_000, 'add_many of 50,000');
is(join('', $big->contains_many(\@all)), '01' x 50_000, 'contains_many');
is(join('', $big->count_of_many(\@all)), '01' x 50_000, 'count_of_many');
is(scalar $big->contains_many(\@all), 50_000, '... scalar');
is_deeply([$big->present(\@all)], \@half, 'present');
is_deeply([$big->absent(\@all)], [grep { !$half{$_} } @all], 'absent');
is_deeply([$big->add_if_absent_many(\@all)], [grep { !$half{$_} } @all],
    'add_if_absent_many');
is($big->stats->{items}, 100_000, 'all are in');
is($big->remove_many(\@all), 100_000, 'remove_many');
is($big->stats->{counters_set}, 0, '... empties it');

# ---- all or nothing ----------------------------------------------------

fresh();
my $model = CBFModel->new(1000, 1e-6);
$model->add_many([qw(b d b d d)]);
for my $method (qw(add_many remove_many add_if_absent_many contains_many
    count_of_many present absent)) {
    croaks($method, qr/Wide character/, sub {
        my @got = $f->$method(['b', 'new', 'd', "\x{100}", 'later']);
    }, "$method with one wide character croaks");
    table_is($f, $model, '... and none of its items has been touched');
}

done_testing;
