#!/usr/bin/perl
# What cbf's build and check take for ten million short lines, as multiples of
# an empty loop over the same lines in the same perl, and beside sort and grep
# doing the exact job.  See bench/README.
#
#   perl -Mblib bench/cli.pl [--quick] [--rounds N]
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use CBFBench;
use Data::CountingBloomFilter::Shared;
use File::Spec ();
use File::Temp ();
use Time::HiRes qw(time);

my $CLASS  = 'Data::CountingBloomFilter::Shared';
my %option = options();
my $rounds = $option{rounds} || ($option{quick} ? 1 : 5);
my $lines  = $option{quick} ? 200_000 : 10_000_000;
my $few    = $lines / 10;     # different ones among those that repeat
my $listed = $lines / 100;    # in the list; grep takes long for more
my $dir    = File::Temp->newdir;
$| = 1;

# As it will be installed, with the library that this program was given.
my @cbf = ($^X, (map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC),
    "$FindBin::Bin/../bin/cbf");
my @loop = ($^X, '-e', 'while (<STDIN>) {}');
my $null = File::Spec->devnull;
my @sort = qw(sort -u);
my @grep = qw(grep -Fxf);
$ENV{LC_ALL} = 'C';    # bytes, which is the fastest for both

# Numbers without order; lines of 7 to 9 bytes with their end.
my $MODULUS = 99_999_989;

sub write_lines {
    my ($name, $n, $number) = @_;
    open my $out, '>', "$dir/$name" or die "$name: $!\n";
    for my $i (1 .. $n) {
        print {$out} $number->($i), "\n";
    }
    close $out or die "$name: $!\n";
    return;
}

sub scattered { return $_[0] * 7_919_017 % $MODULUS }

write_lines('different', $lines, \&scattered);
write_lines('repeated', $lines, sub { scattered(1 + $_[0] * 31 % $few) });
write_lines('list', $listed, sub { scattered($_[0]) });
write_lines('mixed', $lines, sub {
    scattered(1 + ($_[0] * 48_271 + $_[0] % 7) % (2 * $listed))
});

describe($CLASS,
    rounds => "$rounds, interleaved; medians",
    lines  => "$lines of 7 to 9 bytes; $listed in the list",
    files  => "in $dir",
    clock  => 'elapsed time, and processor time of all processes',
);

# Elapsed and processor seconds of a command between two files.
sub seconds {
    my ($from, $to, @command) = @_;
    my @before = times;
    my $start  = time;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN,  '<', $from or die "$from: $!\n";
        open STDOUT, '>', $to   or die "$to: $!\n";
        exec @command or die "$command[0]: $!\n";
    }
    waitpid $pid, 0;
    my $elapsed = time - $start;
    my @after   = times;
    die "@command: status $?\n" if $? & 127 || $? >> 8 > 1;
    return ($elapsed, $after[2] + $after[3] - $before[2] - $before[3]);
}

# A side of the comparison: its name, and the same for its processor time.
sub side {
    my ($name, $from, $to, @command) = @_;
    return sub {
        my ($elapsed, $cpu) = seconds("$dir/$from",
            $to eq $null ? $null : "$dir/$to", @command);
        return ($name => $elapsed, "$name, cpu" => $cpu);
    };
}

# What a filter is made for must be known; else build counts the lines first.
sub build {
    my ($capacity, @more) = @_;
    return (@cbf, 'build', '--quiet', '--capacity', $capacity, @more);
}

my ($all, $set, $new) = map { "$dir/$_.cbf" } qw(all set new);
seconds("$dir/different", $null, build($lines, $all));
seconds("$dir/list", $null, build($listed, $set));

# The command, what it reads, and the words.
my @sides = (
    ['loop',                'different', @loop],
    ['build',               'different', build($lines, $new)],
    ['build -j1',           'different', build($lines, '-j1', $new)],
    ['sort -u',             'different', @sort],
    ['check',               'different', @cbf, 'check', $all],
    ['check -c',            'different', @cbf, 'check', '-c', $all],
    ['loop',                'repeated',  @loop],
    ['build',               'repeated',  build($few, $new)],
    ['build -j1',           'repeated',  build($few, '-j1', $new)],
    ['sort -u',             'repeated',  @sort],
    ['loop',                'mixed',     @loop],
    ['check',               'mixed',     @cbf, 'check', $set],
    ['check -j1',           'mixed',     @cbf, 'check', '-j1', $set],
    ['check -c',            'mixed',     @cbf, 'check', '-c', $set],
    ['grep -Fxf',           'mixed',     @grep, "$dir/list"],
);
my $figures = rounds($rounds, map {
    my ($what, $from, @command) = @$_;
    side("$what, $from", $from, $what =~ /loop|build/ ? $null : 'out',
        @command);
} @sides);

my %about = (
    different => 'all different, and all in the filter that is checked',
    repeated  => 'a tenth of them different',
    mixed     => 'half of them in a list, which has a hundredth as many',
);
my %rival = (build => 'sort -u', check => 'grep -Fxf');
for my $from (qw(different repeated mixed)) {
    heading("$lines lines, $about{$from}");
    my @here = map { $_->[0] } grep { $_->[1] eq $from } @sides;
    for my $what (@here) {
        show($figures, "$what, $from", 1e3, 'ms', $what);
        show($figures, "$what, $from, cpu", 1e3, 'ms',
            '    of all processors');
    }
    print "\n";
    for my $what (grep { /build|check/ } @here) {
        compare("$what / loop", ratio($figures, "$what, $from", "loop, $from"),
            '<=', $what =~ /-j1/ ? undef : 2.5);
        compare("$what / loop, processor time",
            ratio($figures, map { "$_, $from, cpu" } $what, 'loop'));
    }
    for my $what (grep { /build|check/ } @here) {
        my $rival = $rival{ (split / /, $what)[0] };
        next if $what =~ /-c/ || !grep { $_ eq $rival } @here;
        compare("$what / $rival",
            ratio($figures, map { "$_, $from" } $what, $rival), '<=', 1);
    }
}
