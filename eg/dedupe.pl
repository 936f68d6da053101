#!/usr/bin/perl
# Prints each different line of many files once, read by several processes.
#
#   dedupe.pl WORKERS FILE...
#
# The order is not kept.  About one new line in ten thousand is taken for one
# seen before and left out: the price of a table that stays small.
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;

my ($workers, @files) = @ARGV;
die "usage: dedupe.pl WORKERS FILE...\n"
    if !@files || $workers !~ /\A[1-9]\d*\z/;

# Shared with the children, gone with the last of them.
my $seen = Data::CountingBloomFilter::Shared->new(undef, 1_000_000, 0.0001);

for my $n (0 .. $workers - 1) {
    my $pid = fork // die "fork: $!";
    next if $pid;
    work(map { $files[$_] } grep { $_ % $workers == $n } 0 .. $#files);
    exit;
}
my $failed = 0;
while (wait != -1) {
    $failed = 1 if $?;
}
printf STDERR "about %d different lines\n", $seen->count;
exit $failed;

# One lock a batch, not one a line; of several workers that bring the same new
# line at the same time, one is handed it back.
sub work {
    my @batch;
    for my $file (@_) {
        open my $in, '<:raw', $file or die "$file: $!\n";
        while (my $line = <$in>) {
            push @batch, $line;
            next if @batch < 1000;
            output($seen->add_if_absent_many(\@batch));
            @batch = ();
        }
    }
    output($seen->add_if_absent_many(\@batch));
    return;
}

# Whole lines in one write, so that lines of different workers don't mix.
sub output {
    my $text = join '', map { /\n\z/ ? $_ : "$_\n" } @_;
    while (length $text) {
        my $end = rindex($text, "\n", 4095) + 1 || length $text;
        my $done = syswrite(STDOUT, $text, $end) // die "standard output: $!\n";
        substr $text, 0, $done, '';
    }
    return;
}
