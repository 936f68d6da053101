package CBFRandom;

# Random walks: a filter and its model go through the same calls, every answer
# is compared, and now and then the whole table, byte by byte, and the
# statistics.  A walk is fixed by its seed.  Holds no expected value of its own:
# those are CBFModel's.

use strict;
use warnings;
use Test::More ();
use CBFTest;
use CBFModel ();

# Each operation gets the walk and returns [what was called, got, expected].
# The number is how often it is taken, relative to the others.
my @OPS = (
    [12, \&_single, 'add'],
    [8,  \&_single, 'remove'],
    [4,  \&_single, 'contains'],
    [4,  \&_single, 'count_of'],
    [4,  \&_single, 'add_if_absent'],
    [6,  \&_batch,  'add_many'],
    [5,  \&_batch,  'remove_many'],
    [3,  \&_list,   'add_if_absent_many'],
    [2,  \&_list,   'contains_many'],
    [2,  \&_list,   'count_of_many'],
    [2,  \&_list,   'present'],
    [2,  \&_list,   'absent'],
    [3,  \&_scalar],
    [3,  \&_saturate],
    [2,  \&_merge],
    [1,  \&_merge_self],
    [3,  \&_other],
    [1,  \&_clear],
    [2,  \&_reopen],
    [2,  \&_histogram],
    [2,  \&_accessors],
);
my @BAG = map { my ($times, @op) = @$_; ([@op]) x $times } @OPS;

# What the list forms of reads must answer, told by the model's single reads.
my %READ = (
    contains_many => sub { map { $_[0]->contains($_) } @{ $_[1] } },
    count_of_many => sub { map { $_[0]->count_of($_) } @{ $_[1] } },
    present => sub { my ($m, $l) = @_; grep { $m->contains($_) } @$l },
    absent  => sub { my ($m, $l) = @_; grep { !$m->contains($_) } @$l },
    add_if_absent_many => sub { @{ $_[0]->add_if_absent_many($_[1]) } },
);

# ---- the walk ----------------------------------------------------------

# walk(seed =>, capacity =>, fp_rate =>, backing =>, dir =>, steps =>, pool =>)
# runs one walk and returns undef, or a description of the first difference.
sub walk {
    my (%arg) = @_;
    srand $arg{seed};
    my $w = {
        %arg,
        model => CBFModel->new(@arg{qw(capacity fp_rate)}),
        twin  => CBFModel->new(@arg{qw(capacity fp_rate)}),
        other => $CLASS->new(undef, @arg{qw(capacity fp_rate)}),
        items => [map { _item($_) } 1 .. $arg{pool}],
    };
    $w->{f} = _open($w);
    for my $step (1 .. $arg{steps}) {
        my ($op, @more) = @{ $BAG[int rand @BAG] };
        my ($what, $got, $want) = @{ $op->($w, @more) };
        return _told($w, $step, "$what: '$got', expected '$want'")
            if $got ne $want;
        my $off = $step % 10 && $step < $arg{steps} ? undef : _whole($w);
        return _told($w, $step, "after $what: $off") if defined $off;
    }
    return undef;
}

sub _told {
    my ($w, $step, $what) = @_;
    return "seed $w->{seed}, capacity $w->{capacity}, rate $w->{fp_rate}, "
        . "$w->{backing}, step $step: $what";
}

# Items of all lengths a hash might care about, most of them short.
sub _item {
    my ($n) = @_;
    my $len = $n % 7 ? int rand 12 : int rand 300;
    return "$n:" . join '', map { chr int rand 256 } 1 .. $len;
}

sub _open {
    my ($w) = @_;
    my @geometry = @$w{qw(capacity fp_rate)};
    return $w->{backing} eq 'file' ? $CLASS->new(_path($w), @geometry)
        : $w->{backing} eq 'memfd' ? $CLASS->new_memfd("walk", @geometry)
        :                            $CLASS->new(undef, @geometry);
}

sub _path { "$_[0]{dir}/walk-$_[0]{seed}.cbf" }

# Table, statistics and a look at every item.
sub _whole {
    my ($w) = @_;
    return 'the table' unless table_is($w->{f}, $w->{model});
    return 'the statistics' unless stats_are($w->{f}, $w->{model});
    my $got  = join ' ', map { $w->{f}->count_of($_) } @{ $w->{items} };
    my $want = join ' ', map { $w->{model}->count_of($_) } @{ $w->{items} };
    return $got eq $want ? undef : "counts $got, expected $want";
}

sub _one  { my ($w) = @_; $w->{items}[int rand @{ $w->{items} }] }
sub _some { my ($w) = @_; [map { _one($w) } 1 .. int rand 20] }

# ---- the operations ----------------------------------------------------

sub _single {
    my ($w, $method) = @_;
    my $item = _one($w);
    return [$method, $w->{f}->$method($item), $w->{model}->$method($item)];
}

sub _batch {
    my ($w, $method) = @_;
    my $list = _some($w);
    return ["$method of " . @$list, $w->{f}->$method($list),
        $w->{model}->$method($list)];
}

sub _list {
    my ($w, $method) = @_;
    my $list = _some($w);
    my @got  = $w->{f}->$method($list);
    my @want = $READ{$method}->($w->{model}, $list);
    return ["$method of " . @$list, join('|', @got), join('|', @want)];
}

# Scalar context: how many of what list context gives are true, or their number.
sub _scalar {
    my ($w) = @_;
    my @names  = sort keys %READ;
    my $method = $names[int rand @names];
    my $list   = _some($w);
    my $got    = $w->{f}->$method($list);
    my @want   = $READ{$method}->($w->{model}, $list);
    my $want   = $method =~ /_of_|contains/ ? grep { $_ } @want : @want;
    return ["scalar $method of " . @$list, $got, $want];
}

# Enough adds of one item to reach the top and push against it.
sub _saturate {
    my ($w) = @_;
    my $list = [(_one($w)) x (10 + int rand 10)];
    return ['add_many of one item', $w->{f}->add_many($list),
        $w->{model}->add_many($list)];
}

sub _merge {
    my ($w) = @_;
    my @none = $w->{f}->merge($w->{other});
    $w->{model}->merge($w->{twin});
    return ['merge', scalar @none, 0];
}

sub _merge_self {
    my ($w) = @_;
    my @none = $w->{f}->merge($w->{f});
    $w->{model}->merge($w->{model});
    return ['merge with itself', scalar @none, 0];
}

# Changes the filter that merge takes from.
sub _other {
    my ($w) = @_;
    return ['clear of the other', scalar(@{ [$w->{other}->clear] }),
        scalar(@{ [$w->{twin}->clear] })] if rand() < 0.3;
    my $list = _some($w);
    return ['add_many to the other', $w->{other}->add_many($list),
        $w->{twin}->add_many($list)];
}

sub _clear {
    my ($w) = @_;
    my @none = $w->{f}->clear;
    $w->{model}->clear;
    return ['clear', scalar @none, 0];
}

# The same filter through a new handle: the closed file again, the same memory
# by its descriptor, or an image of it.
sub _reopen {
    my ($w) = @_;
    if ($w->{backing} eq 'file') {
        $w->{f} = undef;
        $w->{f} = $CLASS->new(_path($w), 1 + int rand 9, 0.3);
    }
    elsif ($w->{backing} eq 'memfd') {
        $w->{f} = $CLASS->new_from_fd($w->{f}->memfd);
    }
    else {
        $w->{f} = $CLASS->new_from_bytes($w->{f}->to_bytes);
    }
    my $off = _whole($w);
    return ['reopen', defined $off ? $off : 'the same', 'the same'];
}

sub _histogram {
    my ($w) = @_;
    return ['histogram', join(' ', @{ $w->{f}->histogram }),
        join(' ', @{ $w->{model}->histogram })];
}

sub _accessors {
    my ($w) = @_;
    my ($f, $stats) = ($w->{f}, $w->{model}->stats);
    my @keys = qw(capacity fp_rate counters hashes count frozen readonly);
    return ['accessors', join(' ', map { $f->$_ } @keys),
        join(' ', map { $stats->{$_} } @keys)];
}

1;
