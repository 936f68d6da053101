# The numbers that the manual tells are recomputed: sizes and geometry by the
# model, rates by their formulas, and those of small tables, where the formulas
# leave something out, by trying all positions that an item can have.
#
# A number with commas or an exponent that nothing here has checked is an error,
# so that none goes into the text unseen.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use List::Util qw(sum max);
use Test::More;
use CBFModel;
use CBFPod;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog(120);
srand 20030;

my $manual = "$FindBin::Bin/../lib/Data/CountingBloomFilter/Shared.pm";
my $words  = words_of($manual);
my @blocks = blocks_of($manual);
my $FIXED  = 256 + 1024 * 16 + 1024 / 8;    # header, slots, bitmap
my %checked;

# ---- arithmetic --------------------------------------------------------

sub commas { scalar reverse join ',', unpack '(A3)*', reverse $_[0] }

# Share of the counters that n items leave above 0.
sub fill { my ($n, $k, $m) = @_; 1 - exp(-$k * $n / $m) }

# The chance that k counters are set by chance, and that a stranger's positions
# are those of one stored item, in either direction, but for s of them at one end,
# which are set by chance.  There are m * m / 2 ways to choose positions.
sub rates {
    my ($n, $k, $m) = @_;
    my $fill = fill($n, $k, $m);
    my $near = 2 + 4 * sum(0, map { $fill ** $_ } 1 .. $k - 1);
    return $fill ** $k, $n * $near / ($m * $m / 2);
}

# The same without a formula: n items are put in, then all that can be are tried.
sub tried {
    my ($n, $k, $m, $rounds) = @_;
    my ($yes, $all) = (0, 0);
    for (1 .. $rounds) {
        my @set = (0) x $m;
        for (1 .. $n) {
            my ($lo, $step) = (int rand $m, 1 | int rand $m);
            $set[($lo + $_ * $step) % $m] = 1 for 0 .. $k - 1;
        }
        for (my $step = 1; $step < $m; $step += 2) {
            my $walk = join '', @set[map { $_ * $step % $m } 0 .. $m + $k - 2];
            $yes++ while $walk =~ /(?=1{$k})/g;
            $all += $m;
        }
    }
    return $yes / $all;
}

# Rows of a table, as lists of numbers without commas.
sub table {
    my ($name) = @_;
    my ($block) = grep { $_->{kind} eq 'table' && $_->{name} eq $name } @blocks;
    return map { [map { tr/,//dr } split] }
        grep { /\A\s*\d/ } split /\n/, $block->{text};
}

# Passes if the text says it, with the numbers put in for %s.
sub says {
    my ($pattern, @numbers) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $text = sprintf $pattern, @numbers;
    $checked{$_} = 1 for @numbers;
    ok(index($words, $text) >= 0, "it says: $text");
    return;
}

# ---- tables ------------------------------------------------------------

subtest 'sizes' => sub {
    my @rows = table('sizing');
    cmp_ok(scalar @rows, '>=', 16, 'there are rows');
    for my $row (@rows) {
        my ($n, $rate, $k, $m, $bytes, $each, $full) = @$row;
        my $g = CBFModel->geometry($n, $rate);
        is("$k $m $bytes", "@$g{qw(hashes counters mmap_size)}",
            "$n at $rate: geometry");
        is($bytes, $FIXED + $m / 2, '... a half byte each, and the fixed part');
        is_deeply(Data::CountingBloomFilter::Shared->geometry($n, $rate), $g,
            '... as the module has it');
        is($each, sprintf('%.2f', $bytes / $n), '... bytes an item');
        is($full, sprintf('%.1e', sum(rates($n, $k, $m))), '... rate when full');
    }
};

subtest 'few counters' => sub {
    my @rows = table('few');
    cmp_ok(scalar @rows, '>=', 8, 'there are rows');
    for my $row (@rows) {
        my ($n, $rate, $k, $m, $expect) = @$row;
        my $name = "$n at $rate";
        my $g = CBFModel->geometry($n, $rate);
        is("$k $m", "@$g{qw(hashes counters)}", "$name: geometry");
        my ($chance, $near) = rates($n, $k, $m);
        cmp_ok($near, '<=', 12 * $n / $m ** 2, '... at most 12 n / m**2 more');
        if ($m > 2048) {
            is($expect, sprintf('%.1e', $chance + $near), '... by the formula');
            next;
        }
        my $tried = tried($n, $k, $m, int(4e6 / $m ** 2) + 1);
        cmp_ok(abs($tried / $expect - 1), '<', 0.25, '... as tried')
            or diag("tried: $tried");
        cmp_ok(abs($tried / ($chance + $near) - 1), '<', 0.5,
            '... and about by the formula');
    }
};

# ---- sentences ---------------------------------------------------------

says('A file is %s bytes for the header', commas($FIXED));
says('and the fixed %s.', commas($FIXED));

my $million = CBFModel->geometry(1_000_000, 0.001);
is(sprintf('%.0f', $million->{mmap_size} / 1e6), 8, 'a million items: 8 MB');
says('a million items take about 8 MB with one wrong answer in a thousand');
is($million->{counters}, CBFModel->geometry(1_000_000, 0.01)->{counters},
    'a million items: the same at 0.01');
says('A million items cost the same at 0.01 and at 0.001.');

# From a table that is just enough to one that is twice as large, half a byte a
# counter.
says('%s to %s bytes an item at 0.01, %s to %s at 0.001,',
    map { sprintf '%.1f', $_ / log(2) / 2 } 7, 14, 10, 20);

my $most = int(CBFModel::MAX_COUNTERS * log(2) / 7);
ok(CBFModel::counters_for($most, 7), 'the largest capacity fits');
ok(!CBFModel::counters_for($most + 1, 7), '... and one more does not');
says('which take %s bytes. At 0.01 it is for %s items.',
    commas(CBFModel::file_bytes_for(CBFModel::MAX_COUNTERS)), commas($most));
says('from %s to %s with 7 hashes', sprintf('%.4f', 0.5 ** 7),
    sprintf('%.2f', 0.75 ** 7));

# Rounding the number of hashes: by how much the rate of a table that is just
# enough can exceed the one asked for.
my $excess = max(map {
    my $rate = 0.7 * 0.999 ** $_;
    0.5 ** CBFModel::hashes_for($rate) / $rate
} 0 .. 20_000);
cmp_ok($excess, '<', 1.42, 'rounding the hashes');
cmp_ok($excess, '>', 1.41, '... costs up to that');
says('at most about %s times what was asked for', '1.42');
says('Rates above %s or below about %s have', sprintf('%.2f', 0.5 ** 0.5),
    sprintf('%.1e', 0.5 ** 32.5));

# A Poisson tail: k n / m = ln 2 probes for each counter.
my ($term, $tail) = (exp(-log 2), 0);
for my $j (0 .. 60) {
    $tail += $term if $j >= 15;
    $term *= log(2) / ($j + 1);
}
says('about %s, so among 2**30 counters it is about %s.',
    sprintf('%.1e', $tail), sprintf('%.1e', $tail * 2 ** 30));

# The first one percent: how many blocks of 4 KiB hold no counter that is set.
my $empty = max(map {
    my ($n, $rate, $k, $m) = @$_;
    exp(-$k * $n / 100 * 8192 / $m)
} table('sizing'));
cmp_ok($empty, '<', 1e-9, 'at 1 % of the capacity no block is empty');
says('when 1 %% of the capacity is in, practically all blocks are there');

my $part = CBFModel->geometry(100_000_000, 0.01)->{mmap_size};
says('has %s bytes, and eight of them %s', commas($part), commas(8 * $part));
my $shard = int(100_000_000 / 16);
says('For the hundred million and 16 shards that is %s items and %s bytes each',
    commas($shard), commas(CBFModel->geometry($shard, 0.01)->{mmap_size}));

my @unseen = grep { !$checked{$_} }
    $words =~ /(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?e-?\d+)/g;
is("@unseen", '', 'no other number with commas or an exponent is told');

done_testing;
