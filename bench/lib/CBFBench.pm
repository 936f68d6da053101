package CBFBench;
# What the benchmarks share: clocks, keys, interleaved rounds, medians, and the
# way results are printed.  Measures nothing by itself and judges nothing: a
# target that is missed is shown as missed, and the program still ends well.
use strict;
use warnings;
use Config;
use Exporter 'import';
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);

our @EXPORT = qw(options describe keys_from cpu_seconds timed rounds median
    ratio heading show compare spread);

# --quick: few rounds, to see that all still runs.  --rounds N.
sub options {
    my %option = (quick => 0);
    while (@ARGV) {
        my $word = shift @ARGV;
        if    ($word eq '--quick') { $option{quick} = 1 }
        elsif ($word eq '--rounds' && @ARGV && $ARGV[0] =~ /\A[1-9]\d*\z/) {
            $option{rounds} = shift @ARGV;
        }
        else { die "usage: $0 [--quick] [--rounds N]\n" }
    }
    return %option;
}

sub _first {
    my ($file, $pattern) = @_;
    open my $in, '<', $file or return 'unknown';
    while (my $line = <$in>) {
        return $1 if $line =~ $pattern;
    }
    return 'unknown';
}

# Says on what the figures were taken; figures without it mean nothing.
sub describe {
    my ($module, %more) = @_;
    my @cpus = glob '/sys/devices/system/cpu/cpu[0-9]*';
    my ($system, $kernel, $machine) = (POSIX::uname())[0, 2, 4];
    my $gcc = $Config{gccversion} ? "gcc $Config{gccversion}" : $Config{cc};
    my %line = (
        machine => join(' ', scalar @cpus, 'x',
            _first("/proc/cpuinfo", qr/^model name\s*: (.*)/) . ",", $machine),
        memory => int(_first('/proc/meminfo', qr/^MemTotal:\s*(\d+)/) / 1024)
            . ' MiB',
        kernel => "$system $kernel",
        load   => _first('/proc/loadavg', qr/^(\S+)/) . ' at the start',
        perl   => sprintf('%vd, %s threads', $^V,
            $Config{usethreads} ? 'with' : 'without'),
        compiler => "$gcc, $Config{optimize}",
        module   => join(' ', grep { defined } $module, $module->VERSION),
        %more,
    );
    my @first = qw(module machine memory kernel load perl compiler);
    my %first = map { $_ => 1 } @first;
    printf "%-9s %s\n", $_, $line{$_}
        for @first, sort grep { !$first{$_} } keys %line;
    return;
}

# Different keys of 8 to 20 bytes: eight hexadecimal digits that are a
# permutation of the number, and some padding.
sub keys_from {
    my ($first, $n) = @_;
    return map {
        sprintf('%08x', $_ * 2654435761 & 0xffffffff)
            . substr('-padding-of-', 0, $_ % 13)
    } $first .. $first + $n - 1;
}

# Processor time, so that other programs on the machine disturb less.
sub cpu_seconds { return clock_gettime(CLOCK_PROCESS_CPUTIME_ID) }

# Processor seconds of one call.
sub timed {
    my ($code, @args) = @_;
    my $start = cpu_seconds();
    $code->(@args);
    return cpu_seconds() - $start;
}

# Runs every side once a round, each round beginning with another one.  A side
# returns pairs of name and figure.  Result: name => one figure for each round.
sub rounds {
    my ($rounds, @sides) = @_;
    my %figures;
    for my $round (0 .. $rounds) {
        for my $i (0 .. $#sides) {
            my %got = $sides[ ($i + $round) % @sides ]->();
            next if !$round;    # caches, page tables and branch predictors
            push @{ $figures{$_} }, $got{$_} for keys %got;
        }
    }
    return \%figures;
}

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return undef if !@sorted;
    my $middle = int(@sorted / 2);
    return @sorted % 2 ? $sorted[$middle]
        : ($sorted[$middle - 1] + $sorted[$middle]) / 2;
}

# The median of what the rounds say of one side as a multiple of the other.
sub ratio {
    my ($figures, $side, $of) = @_;
    my ($up, $down) = @{$figures}{ $side, $of };
    return undef if !$up || !$down;
    return median(map { $up->[$_] / $down->[$_] } grep { $down->[$_] > 0 }
        0 .. $#$up);
}

sub heading {
    my ($title) = @_;
    print "\n$title\n", '-' x length $title, "\n";
    return;
}

# A line of the table: what, the median, its unit and how far rounds are apart.
sub show {
    my ($figures, $side, $scale, $unit, $label) = @_;
    my $rounds = $figures->{$side} or return;
    printf "  %-44s %10.1f %-6s %s\n", $label // $side,
        $scale * median(@$rounds), $unit, spread($rounds);
    return;
}

# The middle half of the rounds, as a share of the median.
sub spread {
    my ($rounds) = @_;
    my @sorted = sort { $a <=> $b } @$rounds;
    my $median = median(@sorted);
    return '' if @sorted < 4 || !$median;
    my ($low, $high) = @sorted[ int(@sorted / 4), int(3 * @sorted / 4) ];
    return sprintf '(+- %.0f %%)', 50 * ($high - $low) / $median;
}

# A line that compares: what, its value, the target and whether it is met.
sub compare {
    my ($label, $value, $sense, $target) = @_;
    my $verdict = !defined $value ? 'not in this release'
        : !defined $target        ? ''
        : ($sense eq '<=' ? $value <= $target : $value >= $target) ? 'met'
        :                                                            'MISSED';
    printf "  %-54s %6s  %-8s %s\n", $label,
        defined $value  ? sprintf('%.2f', $value)          : '-',
        defined $target ? sprintf('%s %.2f', $sense, $target) : '', $verdict;
    return;
}

1;
