#!/usr/bin/perl
# Counts what is frequent now: reports an item when it comes up for the Nth time
# within the last WINDOW lines.  Memory does not depend on what the lines hold.
#
#   window.pl WINDOW TIMES [FILE...]
#
# Shows the one safe way to remove: take out exactly what you put in, once for
# each time you did.  The queue knows; the filter alone does not, and removing a
# stranger that merely looks present could erase somebody else.
#
# A counter stops at 15 and then stays there, since it no longer knows its true
# value: an item that fills the window like that is never forgotten.
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;

my ($window, $times) = splice @ARGV, 0, 2;
die "usage: window.pl WINDOW TIMES [FILE...]\n"
    if grep { !defined || !/\A[1-9]\d*\z/ } $window, $times;
die "TIMES can be 14 at most\n" if $times > 14;

my $recent = Data::CountingBloomFilter::Shared->new(undef, $window, 0.001);
my @queue;

while (my $item = <>) {
    chomp $item;
    $recent->add($item);
    push @queue, $item;
    $recent->remove(shift @queue) if @queue > $window;
    print "$.: $item\n" if $recent->count_of($item) == $times;
}

my $stats = $recent->stats;
print "in the window: $stats->{items} lines, about $stats->{count} different, ",
    "$stats->{saturated} counters stuck at 15\n";
