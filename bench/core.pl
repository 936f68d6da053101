#!/usr/bin/perl
# The C core against the memory's speed: builds bench/core.c with the core, runs
# it, and shows each figure beside the floor that the same program measured on
# the same table.  See bench/README.
#
#   perl bench/core.pl [--quick] [--rounds N]
use strict;
use warnings;
use Config;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use CBFBench;
use CoreBuild qw(build_program core_compiler core_file);

my %option = options();
my $rounds = $option{rounds} || ($option{quick} ? 2 : 9);
my $items  = $option{quick} ? 100_000 : 1_000_000;
$| = 1;

my ($program, $output) = build_program(
    source => core_file('bench', 'core.c'),
    flags  => [split ' ', $Config{optimize}],
);
die "bench/core.c does not build:\n$output" if !defined $program;

describe('the C core',
    compiler => join(' ', core_compiler()) . ", $Config{optimize}",
    rounds   => "$rounds; medians",
    table    => 'capacity 20000000, rate 0.01: 128 MiB of counters',
    items    => "$items hashes a batch, random",
    clock    => 'processor time',
);

# The first round warms up.
my %figures;
open my $in, '-|', $program, $rounds + 1, $items or die "$program: $!\n";
while (my $line = <$in>) {
    my ($name, $ns) = $line =~ /\A(\w+) ([0-9.]+)\n\z/
        or die "it said: $line";
    push @{ $figures{$name} }, $ns;
}
close $in or die "it failed\n";
shift @$_ for values %figures;

heading('Batches, an item');
show(\%figures, $_, 1, 'ns') for qw(floor contains_hit contains_miss count_of
    floor_write add remove);
print "\n";
compare("$_->[0] / $_->[1]", ratio(\%figures, @$_[0, 1]), '<=', $_->[2])
    for ['contains_hit', 'floor', 1.3], ['contains_miss', 'floor', 1.3],
    ['count_of', 'floor', 1.3], ['add', 'floor', 1.6],
    ['remove', 'floor', 1.6];

heading('Whole tables, a MiB of one table');
show(\%figures, $_, 1048.576, 'us') for qw(floor_sum tally histogram checksum
    clear floor_or merge merge_frozen merge_filters);
print "\n";
compare("$_->[0] / $_->[1]", ratio(\%figures, @$_[0, 1]), '<=', $_->[2])
    for ['tally', 'floor_sum', 1.5], ['histogram', 'floor_sum'],
    ['checksum', 'floor_sum'], ['merge', 'floor_or', 1.5],
    ['merge_frozen', 'floor_or', 1.5], ['merge_filters', 'floor_or', 1.5];
