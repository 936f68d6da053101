package Data::CountingBloomFilter::Shared::Command::Report;
# The commands that tell: info, histogram, size.  Changes nothing.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(one_line write_out);
use Data::CountingBloomFilter::Shared::Command::Target qw(open_reading);

my $CLASS = 'Data::CountingBloomFilter::Shared';

my $LN2 = log 2;

# ---- numbers as people read them ---------------------------------------

sub _grouped {
    my ($n) = @_;
    $n = sprintf '%.0f', $n;
    1 while $n =~ s/\A([0-9]+)([0-9]{3})/$1,$2/;
    return $n;
}

sub _bytes {
    my ($n) = @_;
    my ($unit, $value) = ('', $n);
    for my $next (qw(KiB MiB GiB TiB)) {
        last if $value < 1024;
        ($unit, $value) = ($next, $value / 1024);
    }
    return _grouped($n) . ($unit ? sprintf(' (%.1f %s)', $value, $unit) : '');
}

# A rate, with about two digits that matter.
sub _rate {
    my ($p) = @_;
    return sprintf '%.2g', $p if $p < 0.001;
    return sprintf '%.4g', $p;
}

# Names and values, a line each.
sub _table {
    return join '', map { sprintf "%-16s %s\n", "$_->[0]:", $_->[1] } @_;
}

sub _json {
    my ($data) = @_;
    require JSON::PP;
    return JSON::PP->new->canonical->utf8->encode($data) . "\n";
}

# A path as text: what is no UTF-8 is taken byte by byte.
sub _as_text {
    my ($path) = @_;
    utf8::decode($path);
    return $path;
}

# ---- info --------------------------------------------------------------

sub info {
    my ($option, @files) = @_;
    die "--json and --prometheus exclude each other\n"
        if $option->{json} && $option->{prometheus};
    my @facts = map { _facts($_) } @files;
    write_out(
        $option->{json} ? join('', map { _json(_for_json($_)) } @facts)
        : $option->{prometheus} ? _prometheus(@facts)
        : join "\n", map { _human($_) } @facts);
    return 0;
}

sub _facts {
    my ($file) = @_;
    my $filter = open_reading($file);
    my $stats  = $filter->stats;
    my @st = stat $file or die "$file: $!\n";
    return { %$stats, file => $file, disk_bytes => $st[12] * 512 };
}

# Numbers as JSON numbers, whatever they were used as before.
sub _for_json {
    my ($facts) = @_;
    require JSON::PP;
    my %out = map { $_ => $facts->{$_} + 0 } grep { $_ ne 'file' } keys %$facts;
    $out{$_} = $out{$_} ? JSON::PP::true() : JSON::PP::false()
        for qw(frozen readonly);
    $out{file} = _as_text($facts->{file});
    return \%out;
}

sub _human {
    my ($f) = @_;
    my $saturated = $f->{saturated}
        ? ' at 15, where counting ends' : '';
    return _table(
        [file => one_line($f->{file})],
        [state => $f->{frozen} ? 'frozen' : 'mutable'],
        ['file size' => _bytes($f->{mmap_size})],
        ['on disk'   => _bytes($f->{disk_bytes})],
        [capacity => _grouped($f->{capacity}) . ' items at a rate of '
            . _rate($f->{fp_rate})],
        [counters => _grouped($f->{counters}) . ", $f->{hashes} an item"],
        ['in use' => sprintf '%s counters, %.2f %%',
            _grouped($f->{counters_set}), 100 * $f->{fill_ratio}],
        [saturated => _grouped($f->{saturated}) . " counters$saturated"],
        ['different items' => 'about ' . _grouped($f->{count})
            . sprintf ', %.1f %% of the capacity',
            100 * $f->{count} / $f->{capacity}],
        ['items' => _grouped($f->{items}) . ', added less removed'],
        ['error rate now' => _rate($f->{estimated_fp_rate})],
        [operations => _grouped($f->{ops})],
        [recoveries => _grouped($f->{recovered})],
    );
}

# Name, type, help, value.
my @METRICS = (
    [capacity_items => 'gauge', 'Items the filter was made for.', 'capacity'],
    [configured_fp_rate => 'gauge',
        'Rate of wrong yes answers at capacity.', 'fp_rate'],
    [estimated_fp_rate => 'gauge',
        'Chance of a wrong yes answer now.', 'estimated_fp_rate'],
    [counters => 'gauge', 'Counters.', 'counters'],
    [counters_set => 'gauge', 'Counters above 0.', 'counters_set'],
    [counters_saturated => 'gauge', 'Counters at 15.', 'saturated'],
    [hashes => 'gauge', 'Counters an item.', 'hashes'],
    [fill_ratio => 'gauge', 'Share of counters above 0.', 'fill_ratio'],
    [distinct_items => 'gauge', 'Estimated different items.', 'count'],
    [items => 'gauge', 'Items added less items removed.', 'items'],
    [operations_total => 'counter', 'Calls that change the filter.', 'ops'],
    [recoveries_total => 'counter',
        'Times the work of a dead process was taken over.', 'recovered'],
    [file_bytes => 'gauge', 'Size of the file.', 'mmap_size'],
    [disk_bytes => 'gauge', 'Room the file takes on disk.', 'disk_bytes'],
    [frozen => 'gauge', '1 if the filter is frozen.', 'frozen'],
);

# The text format 0.0.4: all samples of a metric stand together.
sub _prometheus {
    my @facts = @_;
    my @out;
    for my $metric (@METRICS) {
        my ($name, $type, $help, $key) = @$metric;
        push @out, "# HELP cbf_$name $help\n", "# TYPE cbf_$name $type\n";
        for my $f (@facts) {
            push @out, sprintf "cbf_%s{file=\"%s\"} %s\n", $name,
                _label($f->{file}), $f->{$key};
        }
    }
    return join '', @out;
}

sub _label {
    my ($text) = @_;
    $text = _as_text($text);
    $text =~ s/([\\"])/\\$1/g;
    $text =~ s/\n/\\n/g;
    utf8::encode($text);
    return $text;
}

# ---- histogram ---------------------------------------------------------

sub histogram {
    my ($option, $file) = @_;
    require Data::CountingBloomFilter::Shared::Command::Chart;
    my $filter = open_reading($file);
    my $out = Data::CountingBloomFilter::Shared::Command::Chart->new(\*STDOUT);
    write_out($out->counters($filter->histogram, $filter->stats));
    return 0;
}

# ---- size --------------------------------------------------------------

sub size {
    my ($option) = @_;
    my ($capacity, $bytes, $rate) = @{$option}{qw(capacity bytes rate)};
    die "give one of --capacity and --bytes\n"
        if defined $capacity == defined $bytes;
    $capacity //= _capacity_within($bytes, $rate);
    my $plan = $CLASS->geometry($capacity, $rate);
    $rate //= 0.01;
    my $most = _most_items($plan->{counters}, $rate);
    my %out = (
        capacity       => int $capacity,
        fp_rate        => $rate + 0,
        counters       => $plan->{counters},
        hashes         => $plan->{hashes},
        bytes          => $plan->{mmap_size},
        bytes_per_item => $plan->{mmap_size} / int $capacity,
        room_for       => $most,
    );
    write_out($option->{json} ? _json(\%out) : _plan(\%out));
    return 0;
}

sub _plan {
    my ($p) = @_;
    return _table(
        [capacity => _grouped($p->{capacity}) . ' items'],
        ['error rate' => _rate($p->{fp_rate})],
        ['file size' => _bytes($p->{bytes})],
        ['an item' => sprintf '%.2f bytes', $p->{bytes_per_item}],
        [counters => _grouped($p->{counters}) . ", $p->{hashes} an item"],
        ['room for' => _grouped($p->{room_for})
            . ' items at this rate and size'],
    );
}

# The most items that a table of so many counters is made for.  This much
# floating point is exact for all tables and numbers of probes there can be.
sub _most_items {
    my ($counters, $rate) = @_;
    my $hashes = $CLASS->geometry(1, $rate)->{hashes};
    return int($counters * $LN2 / $hashes) || 1;
}

# The most items whose file is no larger than so many bytes.
sub _capacity_within {
    my ($bytes, $rate) = @_;
    my $least = $CLASS->geometry(1, $rate);
    my $fixed = $least->{mmap_size} - $least->{counters} / 2;
    die sprintf "--bytes %s is too little: the smallest filter takes %d\n",
        $bytes, $least->{mmap_size}
        if $bytes < $least->{mmap_size};
    my $counters = $least->{counters};
    $counters *= 2
        while $fixed + $counters <= $bytes && $counters < 2 ** 38;
    return _most_items($counters, $rate);
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Report - commands that tell

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 FUNCTIONS

=head2 info, histogram, size

The commands: each takes the options and the arguments, and returns the exit
status.

=cut
