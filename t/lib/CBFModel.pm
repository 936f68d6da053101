package CBFModel;

# An independent model of a counting Bloom filter in plain Perl: its geometry,
# the probes of an item, an array of counters, what each operation answers, and
# the bytes a file must hold.  Written from the contract alone; it never asks the
# module anything, so a test that compares the two means something.
# Knows nothing of locks, processes or mappings, and makes no files.

use strict;
use warnings;
use POSIX ();
use List::Util ();
use CBFXXH3 ();

use constant {
    MIN_COUNTERS    => 64,
    MAX_COUNTERS    => 2**38,
    MAX_PROBES      => 32,
    TOP             => 15,
    SLOTS_AT        => 256,
    BITMAP_AT       => 16640,
    COUNTERS_AT     => 16768,
    MAGIC           => 0x53464243,
    JOURNAL_STATE_AT => 184,
};

# ---- geometry ----------------------------------------------------------

sub hashes_for {
    my ($fp_rate) = @_;
    my $k = POSIX::floor(-log($fp_rate) / log(2) + 0.5);
    return $k < 1 ? 1 : $k > MAX_PROBES ? MAX_PROBES : $k;
}

# The least power of two that is enough; undef if that is more than the largest
# table there may be.
sub counters_for {
    my ($capacity, $k) = @_;
    my $need = POSIX::ceil($capacity * $k / log(2));
    my $m = MIN_COUNTERS;
    $m *= 2 while $m < $need && $m <= MAX_COUNTERS;
    return $m > MAX_COUNTERS ? undef : $m;
}

sub file_bytes_for { COUNTERS_AT + $_[0] / 2 }

sub geometry {
    my ($class, $capacity, $fp_rate) = @_;
    my $k = hashes_for($fp_rate);
    my $m = counters_for($capacity, $k);
    return { counters => $m, hashes => $k, mmap_size => file_bytes_for($m) };
}

# ---- the filter --------------------------------------------------------

sub new {
    my ($class, $capacity, $fp_rate) = @_;
    $fp_rate = 0.01 unless defined $fp_rate;
    my $geometry = $class->geometry($capacity, $fp_rate);
    my $self = {
        capacity => $capacity,
        fp_rate  => $fp_rate,
        k        => $geometry->{hashes},
        m        => $geometry->{counters},
        ops      => 0,
        probes   => {},
    };
    $self->{counter} = [(0) x $self->{m}];
    return bless $self, $class;
}

# Probe i is (lo + i * (hi | 1)) mod m, where the sum wraps at 2**64; m is a
# power of two, so the wrap does not show, but it is written as the contract
# says it.
sub probes_of {
    my ($lo, $hi, $k, $m) = @_;
    return map {
        CBFXXH3::add64($lo, CBFXXH3::mul64($_, $hi | 1)) & ($m - 1)
    } 0 .. $k - 1;
}

sub positions {
    my ($self, $item) = @_;
    my $known = $self->{probes}{$item} ||= [
        probes_of(CBFXXH3::xxh3_128($item), $self->{k}, $self->{m})
    ];
    return @$known;
}

sub count_of {
    my ($self, $item) = @_;
    return List::Util::min(@{ $self->{counter} }[$self->positions($item)]);
}

sub contains { $_[0]->count_of($_[1]) > 0 ? 1 : 0 }

sub _add {
    my ($self, $item) = @_;
    my $fresh = $self->contains($item) ? 0 : 1;
    for my $at ($self->positions($item)) {
        $self->{counter}[$at]++ if $self->{counter}[$at] < TOP;
    }
    return $fresh;
}

sub _remove {
    my ($self, $item) = @_;
    return 0 unless $self->contains($item);
    for my $at ($self->positions($item)) {
        $self->{counter}[$at]-- if $self->{counter}[$at] < TOP;
    }
    return 1;
}

sub _add_if_absent {
    my ($self, $item) = @_;
    return $self->contains($item) ? 0 : $self->_add($item);
}

# Each call of a mutator is one operation, whatever it did; a batch is one call.
sub add    { $_[0]{ops}++; $_[0]->_add($_[1]) }
sub remove { $_[0]{ops}++; $_[0]->_remove($_[1]) }
sub add_if_absent { $_[0]{ops}++; $_[0]->_add_if_absent($_[1]) }

sub add_many {
    my ($self, $items) = @_;
    $self->{ops}++;
    return List::Util::sum(0, map { $self->_add($_) } @$items);
}

sub remove_many {
    my ($self, $items) = @_;
    $self->{ops}++;
    return List::Util::sum(0, map { $self->_remove($_) } @$items);
}

# The items it added, in order.
sub add_if_absent_many {
    my ($self, $items) = @_;
    $self->{ops}++;
    return [grep { $self->_add_if_absent($_) } @$items];
}

sub clear {
    my ($self) = @_;
    $self->{ops}++;
    $self->{counter} = [(0) x $self->{m}];
    return;
}

sub merge {
    my ($self, $other) = @_;
    $self->{ops}++;
    my @from = @{ $other->{counter} };    # a copy: it may be the same filter
    for my $i (0 .. $#from) {
        my $sum = $self->{counter}[$i] + $from[$i];
        $self->{counter}[$i] = $sum > TOP ? TOP : $sum;
    }
    return;
}

# An independent filter that holds the same.
sub clone {
    my ($self) = @_;
    return bless { %$self, counter => [@{ $self->{counter} }] }, ref $self;
}

# ---- looking at the whole table ----------------------------------------

sub histogram {
    my ($self) = @_;
    my @n = (0) x (TOP + 1);
    $n[$_]++ for @{ $self->{counter} };
    return \@n;
}

# The estimate of distinct items for `set` counters above 0.  With every counter
# above 0 the logarithm has no value; what is promised there is only that the
# estimate does not fall, and the last value before that is the one to expect.
sub estimate {
    my ($set, $m, $k) = @_;
    $set = $m - 1 if $set > $m - 1;
    return POSIX::floor(-($m / $k) * log(1 - $set / $m) + 0.5);
}

sub count {
    my ($self) = @_;
    return estimate($self->counters_set, $self->{m}, $self->{k});
}

sub counters_set { scalar grep { $_ > 0 } @{ $_[0]{counter} } }

sub stats {
    my ($self) = @_;
    my $seen = $self->histogram;
    my $set  = $self->{m} - $seen->[0];
    my $sum  = List::Util::sum(map { $_ * $seen->[$_] } 0 .. TOP);
    return {
        capacity          => $self->{capacity},
        fp_rate           => $self->{fp_rate},
        counters          => $self->{m},
        hashes            => $self->{k},
        counters_set      => $set,
        count             => estimate($set, $self->{m}, $self->{k}),
        fill_ratio        => $set / $self->{m},
        ops               => $self->{ops},
        mmap_size         => file_bytes_for($self->{m}),
        frozen            => 0,
        readonly          => 0,
        items             => $sum / $self->{k},
        saturated         => $seen->[TOP],
        estimated_fp_rate => ($set / $self->{m})**$self->{k},
        recovered         => 0,
    };
}

# ---- the file ----------------------------------------------------------

# The counter area: two counters a byte, the even index in the low half.
sub bytes {
    my ($self) = @_;
    my $c = $self->{counter};
    return pack 'C*',
        map { $c->[2 * $_] | $c->[2 * $_ + 1] << 4 } 0 .. $self->{m} / 2 - 1;
}

# The opposite, for pictures in messages: [index, value] of what is not 0.
sub unpack_counters {
    my ($bytes) = @_;
    my @all = map { ($_ & 15, $_ >> 4) } unpack 'C*', $bytes;
    return map { [$_, $all[$_]] } grep { $all[$_] } 0 .. $#all;
}

# Every documented field of a file, by its documented offset.
sub parse_file {
    my ($bytes) = @_;
    my %h;
    @h{qw(magic version hashes zero counters mask capacity fp_rate file_bytes
        slots_at counters_at writer parked drain slotless ops seal)}
        = unpack 'L4 Q3 d Q3 L4 Q C', $bytes;
    $h{reserved_old}  = substr $bytes, 97, 31;
    $h{journal_state} = unpack 'Q', substr $bytes, JOURNAL_STATE_AT, 8;
    $h{slots}  = substr $bytes, SLOTS_AT, BITMAP_AT - SLOTS_AT;
    $h{bitmap} = substr $bytes, BITMAP_AT, COUNTERS_AT - BITMAP_AT;
    $h{table}  = substr $bytes, COUNTERS_AT;
    return \%h;
}

1;
