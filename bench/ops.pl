#!/usr/bin/perl
# What a call costs: single calls and batches, in a table that fits the cache
# and in one that does not; looking and opening.  See bench/README.
#
#   perl -Mblib bench/ops.pl [--quick] [--rounds N]
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use CBFBench;
use Data::CountingBloomFilter::Shared;
use File::Temp ();

my $CLASS = 'Data::CountingBloomFilter::Shared';
my %option = options();
my $quick  = $option{quick};
my $dir    = File::Temp->newdir;
$| = 1;

{
    package Empty;
    sub new { return bless {}, shift }
    sub method { }
}

my %size = (
    small_rounds => $option{rounds} || ($quick ? 3 : 31),
    large_rounds => $option{rounds} || ($quick ? 1 : 7),
    small_keys   => 2000,
    passes       => $quick ? 5 : 20,
    large_keys   => $quick ? 50_000 : 500_000,
    large_fill   => $quick ? 1_000_000 : 10_000_000,
);

describe($CLASS,
    rounds => "$size{small_rounds} (large tables: $size{large_rounds}), "
        . 'interleaved; medians',
    keys => "8 to 20 bytes; $size{small_keys} hot ones, "
        . "$size{large_keys} random ones",
    clock => 'processor time; of single calls without the loop, unless it says so',
);

# One loop for each call.  The empty one fetches the same argument.
my %loop = (
    empty    => sub { my ($f, $k) = @_; for my $i (@$k) { } },
    method   => sub { my ($f, $k) = @_; for my $i (@$k) { $f->method($i) } },
    contains => sub { my ($f, $k) = @_; for my $i (@$k) { $f->contains($i) } },
    count_of => sub { my ($f, $k) = @_; for my $i (@$k) { $f->count_of($i) } },
    add      => sub { my ($f, $k) = @_; for my $i (@$k) { $f->add($i) } },
    remove   => sub { my ($f, $k) = @_; for my $i (@$k) { $f->remove($i) } },
    add_if_absent =>
        sub { my ($f, $k) = @_; for my $i (@$k) { $f->add_if_absent($i) } },
);

# Seconds an item of one pass: without the loop, and, as "NAME loop", with it.
sub per_item {
    my ($name, $call, $f, $keys) = @_;
    my $loop = timed($loop{$call}, $f, $keys) / @$keys;
    return $name => $loop - timed($loop{empty}, $f, $keys) / @$keys,
        "$name loop" => $loop;
}

# The same of one call that takes the whole batch.
sub batch_item {
    my ($call, $f, $keys, $list) = @_;
    my @each;
    my $code = $list
        ? sub { @each = $f->$call($keys) }
        : sub { my $n = $f->$call($keys) };
    return timed($code) / @$keys;
}

# A side that repeats what $code returns $passes times and gives the mean.
sub side {
    my ($passes, $code) = @_;
    return sub {
        my %sum;
        for (1 .. $passes) {
            my %got = $code->();
            $sum{$_} += $got{$_} / $passes for keys %got;
        }
        return %sum;
    };
}

# All calls on one table.  Adds and removes come in pairs, so that the table is
# the same before each.  Sides that this release does not have are left out.
sub call_sides {
    my ($f, $passes, $in, $out, $fresh) = @_;
    my $empty = Empty->new;
    my @sides = (
        side($passes, sub { per_item('method', 'method', $empty, $in) }),
        side($passes, sub {
            return per_item('hit', 'contains', $f, $in),
                per_item('miss', 'contains', $f, $out),
                per_item('count_of', 'count_of', $f, $in);
        }),
        side($passes, sub {
            return per_item('add', 'add', $f, $fresh),
                per_item('remove', 'remove', $f, $fresh);
        }),
    );
    push @sides, side($passes, sub {
        my $add_many = batch_item('add_many', $f, $fresh);
        return add_many => $add_many, $f->can('remove_many')
            ? (remove_many => batch_item('remove_many', $f, $fresh))
            : per_item('again', 'remove', $f, $fresh);
    });
    push @sides, side($passes, sub {
        return per_item('add_if_absent', 'add_if_absent', $f, $fresh),
            per_item('again', 'remove', $f, $fresh);
    }) if $f->can('add_if_absent');
    push @sides, side($passes, sub {
        return hit_many => batch_item('contains_many', $f, $in),
            miss_many => batch_item('contains_many', $f, $out),
            list_many => batch_item('contains_many', $f, $in, 1);
    }) if $f->can('contains_many');
    return @sides;
}

my %label = (
    method    => 'an empty method in Perl, one argument',
    hit       => 'contains, present',
    miss      => 'contains, absent',
    count_of  => 'count_of',
    add       => 'add',
    remove    => 'remove',
    add_if_absent => 'add_if_absent, absent',
    hit_many  => 'contains_many, scalar, present; an item',
    miss_many => 'contains_many, scalar, absent; an item',
    list_many => 'contains_many, list, present; an item',
    add_many    => 'add_many; an item',
    remove_many => 'remove_many; an item',
);
my @order = qw(method hit miss count_of add remove add_if_absent hit_many
    miss_many list_many add_many remove_many);

sub describe_filter {
    my ($f) = @_;
    my $stats = $f->stats;
    return sprintf 'capacity %d, rate %g: %d counters, %d probes, %.4g MiB, '
        . 'fill %.2f', @{$stats}{qw(capacity fp_rate counters hashes)},
        $stats->{counters} / 2 ** 21, $stats->{fill_ratio};
}

sub small {
    my $f = $CLASS->new(undef, 10_000);
    my @in = keys_from(1, $size{small_keys});
    $f->add_many(\@in);
    heading('A table in the cache: ' . describe_filter($f));
    my $figures = rounds($size{small_rounds}, call_sides($f, $size{passes},
        \@in,
        [keys_from(1 << 30, $size{small_keys})],
        [keys_from(1 << 31, $size{small_keys})]));
    show($figures, $_, 1e9, 'ns', $label{$_}) for @order;
    print "\n";
    my @targets = (
        ['hit',    'method', 1.0], ['hit',    'method', 0.9],
        ['miss',   'method', 0.9], ['add',    'method', 1.5],
        ['add',    'method', 1.25], ['remove', 'method', 1.25],
        ['add_many', 'add loop', 0.5], ['add_many', 'add loop', 0.45],
        ['remove_many', 'remove loop', 0.45],
        ['hit_many', 'hit loop', 0.30], ['list_many', 'hit loop', 0.55],
    );
    targets($figures, @targets);
    return;
}

sub targets {
    my ($figures, @targets) = @_;
    for my $line (@targets) {
        my ($side, $of, $target) = @$line;
        compare("$side / $of", ratio($figures, $side, $of), '<=', $target);
    }
    return;
}

# The fill is added in parts, so that the keys need not all be in memory.
sub fill {
    my ($f, $n) = @_;
    my $step = 100_000;
    for (my $done = 0; $done < $n; $done += $step) {
        my $now = $n - $done < $step ? $n - $done : $step;
        $f->add_many([keys_from(1 + $done, $now)]);
    }
    return $f;
}

sub shuffled {
    my @list = @_;
    for my $i (reverse 1 .. $#list) {
        my $j = int rand $i + 1;
        @list[ $i, $j ] = @list[ $j, $i ];
    }
    return \@list;
}

sub large {
    my $f = fill($CLASS->new(undef, 20_000_000), $size{large_fill});
    heading('A table in memory: ' . describe_filter($f));
    srand 1;
    my $n = $size{large_keys};
    my $figures = rounds($size{large_rounds}, call_sides($f, 1,
        shuffled(keys_from(1, $n)),
        shuffled(keys_from(1 << 30, $n)),
        shuffled(keys_from(1 << 31, $n))));
    show($figures, $_, 1e9, 'ns', $label{$_}) for @order;
    print "\n";
    targets($figures,
        ['add_many', 'add loop', 0.35], ['add_many',  'add loop',  0.25],
        ['hit_many', 'hit loop', 0.25], ['miss_many', 'miss loop', 0.25]);
    return;
}

# Looking and opening must not depend on the size of the table.
sub cold {
    my %n = (small => 1000, large => 20_000_000);
    my %file = map { $_ => "$dir/$_" } keys %n;
    fill($CLASS->new($file{small}, $n{small}), 1000);
    fill($CLASS->new($file{large}, $n{large}), $size{large_fill} / 10);
    my %f = map { $_ => $CLASS->new($file{$_}, 1) } keys %n;
    heading('Looking and opening: ' . join ' and ',
        map { sprintf '%d KiB', $f{$_}->counters / 2048 } qw(small large));
    my @sides;
    for my $which (qw(small large)) {
        my $f = $f{$which};
        my %call = (
            stats => sub { $f->stats for 1 .. 100 },
            count => sub { $f->count for 1 .. 100 },
            new   => sub { $CLASS->new($file{$which}, 1) for 1 .. 100 },
        );
        push @sides, map {
            my $call = $_;
            sub { return "$call $which" => timed($call{$call}) / 100 }
        } sort keys %call;
    }
    my $figures = rounds($size{small_rounds}, @sides);
    show($figures, $_, 1e6, 'us') for sort keys %$figures;
    print "\n";
    targets($figures, map { ["$_ large", "$_ small", 3] } qw(stats count new));
    return;
}

small();
large();
cold();
