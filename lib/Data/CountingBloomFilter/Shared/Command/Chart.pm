package Data::CountingBloomFilter::Shared::Command::Chart;
# Charts of text: as wide as the terminal, with colour on a terminal only.
# Knows what counters of a filter look like, and no files.

use 5.022;
use strict;
use warnings;

my $WIDTH_DEFAULT = 80;
my $WIDTH_LEAST   = 50;
my $WIDTH_MOST    = 400;
my $COUNT_MAX     = 15;

# How the kernel is asked for the size of a terminal; two numberings exist.
my @WINDOW_SIZE = (0x5413, 0x40087468);

# For printing to this handle.
sub new {
    my ($class, $handle) = @_;
    my $terminal = -t $handle;
    my $colour = $terminal && !length($ENV{NO_COLOR} // '')
        && ($ENV{TERM} // '') !~ /\A(?:|dumb)\z/;
    return bless { width => _width($handle, $terminal), colour => $colour },
        $class;
}

sub _width {
    my ($handle, $terminal) = @_;
    my $width = $ENV{COLUMNS} // '';
    $width = $terminal && _asked($handle) || $WIDTH_DEFAULT
        if $width !~ /\A[1-9][0-9]{0,5}\z/;
    return $width < $WIDTH_LEAST ? $WIDTH_LEAST
        : $width > $WIDTH_MOST ? $WIDTH_MOST : $width;
}

sub _asked {
    my ($handle) = @_;
    for my $request (@WINDOW_SIZE) {
        my $size = pack 'S4', (0) x 4;
        next if !ioctl $handle, $request, $size;
        my (undef, $columns) = unpack 'S2', $size;
        return $columns if $columns;
    }
    return 0;
}

# What share of counters should hold each value if all items differed: their sum
# spread over the table at random, a Poisson distribution cut at 15.
sub _expected {
    my ($mean) = @_;
    my @share = (exp -$mean);
    my $left  = 1 - $share[0];
    for my $value (1 .. $COUNT_MAX - 1) {
        push @share, $share[-1] * $mean / $value;
        $left -= $share[-1];
    }
    return [@share, $left > 1e-15 ? $left : 0];
}

# The chart of a histogram: as many lines as needed, as one string.
sub counters {
    my ($self, $histogram, $stats) = @_;
    my $m        = $stats->{counters};
    my $mean     = $stats->{items} * $stats->{hashes} / $m;
    my $expected = _expected($mean);
    my ($top)    = grep { $histogram->[$_] || $expected->[$_] * $m >= 0.5 }
        reverse 0 .. $COUNT_MAX;
    my @share = map { $_ / $m } @$histogram;
    my $most  = (sort { $b <=> $a } @share, @$expected)[0];
    my $head  = sprintf '%5s %15s %9s %9s  ', 'value', 'counters', 'share',
        'expected';
    my $room  = $self->{width} - length $head;
    my @lines = ($head =~ s/ +\z//r);
    for my $value (0 .. $top // 0) {
        push @lines, sprintf '%5s %15d %9s %9s  %s',
            $value == $COUNT_MAX ? '15+' : $value, $histogram->[$value],
            map({ sprintf '%.4f %%', 100 * $_ } $share[$value],
                $expected->[$value]),
            $self->_bar($room, map { $most ? $_ / $most : 0 } $share[$value],
                $expected->[$value]);
    }
    s/ +\z// for @lines;
    return join '', map { "$_\n" } @lines, '', _summary($stats, $expected);
}

# A bar for the actual share, and a mark where the expected one ends.
sub _bar {
    my ($self, $room, $actual, $expected) = @_;
    my $length = int($actual * $room + 0.5);
    $length = 1 if !$length && $actual > 0;
    my $mark = int($expected * $room + 0.5) - 1;
    $mark = 0 if $mark < 0 && $expected > 0;
    my $bar = '#' x $length . ' ' x ($room - $length);
    substr $bar, $mark, 1, '|' if $mark >= 0 && $expected * $room >= 0.5;
    return $bar if !$self->{colour};
    $bar =~ s/ +\z//;
    $bar =~ s/(#+)/\e[32m$1\e[0m/g;
    $bar =~ s/\|/\e[33m|\e[0m/;
    return $bar;
}

sub _summary {
    my ($stats, $expected) = @_;
    my $at_capacity = 1 - exp(-$stats->{capacity} * $stats->{hashes}
        / $stats->{counters});
    return (
        sprintf('fill %.2f %%, %.2f %% expected of %d items, %.2f %% at'
            . ' capacity', 100 * $stats->{fill_ratio},
            100 * (1 - $expected->[0]), $stats->{items}, 100 * $at_capacity),
        sprintf('error rate %.3g now, %.3g at capacity, %.3g configured',
            $stats->{estimated_fp_rate}, $at_capacity ** $stats->{hashes},
            $stats->{fp_rate}),
        '# counters   | expected if all items were different',
    );
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Chart - charts made of text

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 METHODS

=head2 new($handle)

For printing to a handle, which may be a terminal.

=head2 counters(\@histogram, \%stats)

The chart, as one string.

=cut
