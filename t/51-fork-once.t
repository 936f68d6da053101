# Several processes add the same fresh items, or remove the same single ones, at
# the same time: for each item exactly one of them is told that it was the one.
# The model makes sure beforehand that every item has a counter of its own, so
# that no item can look present because of others.
use strict;
use warnings;
use Test::More;
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (4000, 0.0005);
my $N     = 3;
watchdog(60);

my @item = map { "item-$_" } 1 .. 1000;
my $once = CBFModel->new(@PLAN);
{
    my %hits;
    for my $item (@item) {
        my %own = map { $_ => 1 } $once->positions($item);
        $hits{$_}++ for keys %own;
    }
    my $shared = grep { !grep { $hits{$_} == 1 } $once->positions($_) } @item;
    is($shared, 0, 'every item has a counter that no other item hits');
}
$once->add_many(\@item);
my $all = CBFModel->new(@PLAN);
$all->add_many(\@item) for 1 .. $N;
is($all->histogram->[15], 0, 'and none is saturated');

sub table { substr $_[0]->to_bytes, $CBFProc::AT{table} }

# What each of the processes returned.
sub race {
    my ($name, $code) = @_;
    my @r = together($N, 20, $code);
    my @bad = map { outcome($_) } grep { !$_->{ok} } @r;
    is("@bad", '', "$name: all processes did their work");
    return map { $_->{list} } @r;
}

sub winners {
    my ($name, @list) = @_;
    my @sum = (0) x @item;
    for my $list (@list) { $sum[$_] += $list->[$_] for 0 .. $#item }
    my @off = grep { $sum[$_] != 1 } 0 .. $#item;
    is(scalar @off, 0, "$name: each item has exactly one winner")
        or diag(join ' ', map { "$item[$_]:$sum[$_]" } grep { defined }
            @off[0 .. 9]);
    return;
}

{
    my $f = $CLASS->new(undef, @PLAN);
    winners('add', race('add', sub { map { $f->add($_) } @item }));
    ok(table($f) eq $all->bytes, "add: each item was counted $N times");
    race('remove', sub {
        $f->remove($_) for @item;
        return 1;
    });
    is($f->stats->{items}, 0, 'remove: everything is gone again');
}
{
    my $f = $CLASS->new(undef, @PLAN);
    winners('add_if_absent',
        race('add_if_absent', sub { map { $f->add_if_absent($_) } @item }));
    ok(table($f) eq $once->bytes, 'add_if_absent: each item was counted once');
    winners('remove', race('remove', sub { map { $f->remove($_) } @item }));
    ok(table($f) !~ /[^\0]/, 'remove: the table is empty');
}

# Batches of 40 items.
my @batch = map { [@item[$_ * 40 .. $_ * 40 + 39]] } 0 .. $#item / 40;
{
    my $f = $CLASS->new(undef, @PLAN);
    my @list = race('add_many', sub { map { $f->add_many($_) } @batch });
    my @sum = map { my $b = $_; my $n = 0; $n += $_->[$b] for @list; $n }
        0 .. $#batch;
    is(scalar(grep { $_ != 40 } @sum), 0,
        'add_many: every batch was new to exactly one process');
    is(scalar(grep { my $n = $_; $n != 0 && $n != 40 } map { @$_ } @list), 0,
        '... as a whole, for a batch has the lock to itself');
    ok(table($f) eq $all->bytes, "add_many: each item was counted $N times");
}
{
    my $f = $CLASS->new(undef, @PLAN);
    my @list = race('add_if_absent_many', sub {
        my ($i) = @_;
        # each process its own order
        my @mine = $i ? reverse @batch : @batch;
        return map { $f->add_if_absent_many($_) } @mine;
    });
    my %seen;
    $seen{$_}++ for map { @$_ } @list;
    is(scalar keys %seen, scalar @item, 'add_if_absent_many: all were added');
    is(scalar(grep { $seen{$_} != 1 } @item), 0, '... each by one process');
    ok(table($f) eq $once->bytes, '... and was counted once');

    @list = race('remove_many', sub { map { $f->remove_many($_) } @batch });
    my $n = 0;
    $n += $_ for map { @$_ } @list;
    is($n, scalar @item, 'remove_many: each item was removed once');
    ok(table($f) !~ /[^\0]/, '... and the table is empty');
}

# The whole list as one batch, one item at a time and mixed, all at once.
{
    my $f = $CLASS->new(undef, @PLAN);
    my @list = race('mixed', sub {
        my ($i) = @_;
        return $f->add_if_absent_many(\@item) if $i == 0;
        return grep { $f->add_if_absent($_) } reverse @item if $i == 1;
        return map { $f->add_if_absent_many($_) } @batch;
    });
    my %seen;
    $seen{$_}++ for map { @$_ } @list;
    is(scalar(grep { ($seen{$_} || 0) != 1 } @item), 0,
        'mixed ways of adding: each item has one winner');
    ok(table($f) eq $once->bytes, '... and was counted once');
}

# In lockstep: one process says "now" by way of another filter, which the other
# one watches, and both add the item at that moment.
for my $method (qw(add add_if_absent)) {
    my $f = $CLASS->new(undef, @PLAN);
    my $said = $CLASS->new(undef, 10_000, 1e-9);
    my @r = together(2, 20, sub {
        my ($i) = @_;
        my $end = Time::HiRes::time() + 3;
        my @won;
        for my $n (0 .. $#item) {
            if ($i == 0) {
                $said->add('stop') if Time::HiRes::time() > $end;
                $said->add("now $n");
            }
            else { 1 until $said->contains("now $n") }
            push @won, $f->$method($item[$n]);
            if ($i == 0) { 1 until $said->contains("done $n") }
            else { $said->add("done $n") }
            last if $said->contains('stop');
        }
        return @won;
    });
    is(scalar(grep { $_->{ok} } @r), 2, "$method in lockstep")
        or diag(map { outcome($_) . "\n" } @r);
    my @won = map { $_->{list} } @r;
    my $both = grep { $won[0][$_] + $won[1][$_] != 1 } 0 .. $#{ $won[0] };
    is($both, 0, '... has one winner for each item');
    note(scalar @{ $won[0] }, ' items');
    my $times = $method eq 'add' ? 2 : 1;
    my $model = CBFModel->new(@PLAN);
    for my $item (@item[0 .. $#{ $won[0] }]) {
        $model->add($item) for 1 .. $times;
    }
    ok(table($f) eq $model->bytes, '... and the table is the model\'s');
}

done_testing;
