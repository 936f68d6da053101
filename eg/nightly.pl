#!/usr/bin/perl
# Tonight's list becomes a frozen filter and is shipped to where it is served; a
# reader that runs for weeks goes over to it without a restart.
#
#   nightly.pl SERVED ITEM LIST...
#
# Each LIST is one night's, a line an item.  SERVED is the path that readers
# open.  Here a forked reader stands for them; it is asked for ITEM every night.
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use File::Copy ();
use IO::Handle;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my ($served, $item, @lists) = @ARGV;
die "usage: nightly.pl SERVED ITEM LIST...\n" if !@lists;
$| = 1;

my ($ask, $replies);
for my $night (1 .. @lists) {
    ship(build($lists[$night - 1], "$served.new"), $served);
    ($ask, $replies) = start_reader($served) if $night == 1;
    print $ask "$item\n";
    print "night $night: ", scalar readline $replies;
}
close $ask;
wait;
exit($? ? 1 : 0);

# A file of its own, sealed at the end: nobody can change it any more.
sub build {
    my ($list, $path) = @_;
    open my $in, '<:raw', $list or die "$list: $!\n";
    chomp(my @lines = <$in>);
    $CLASS->unlink($path);
    my $filter = $CLASS->new($path, @lines || 1, 0.001);
    $filter->add_many(\@lines);
    $filter->freeze;
    print "built: ", scalar @lines, " lines, ", -s $path, " bytes\n";
    return $path;
}

# Between hosts the copy is scp or rsync, to a name beside the served one.  It
# is compared with the checksum that freeze stored, then renamed: readers find
# the old file or the new one, never a half, and who has the old one open keeps
# it.
sub ship {
    my ($built, $to) = @_;
    File::Copy::copy($built, "$to.shipped") or die "copy: $!\n";
    die "$to.shipped was damaged on the way\n"
        if !$CLASS->new_readonly("$to.shipped")->verify;
    rename "$to.shipped", $to or die "rename: $!\n";
    $CLASS->unlink($built);
    return;
}

# Answers a line for a line, and looks for a newer file before each.
sub start_reader {
    my ($path) = @_;
    pipe my $questions, my $to_reader or die "pipe: $!\n";
    pipe my $from_reader, my $answers or die "pipe: $!\n";
    $_->autoflush for $to_reader, $answers;
    my $pid = fork // die "fork: $!\n";
    return $to_reader, $from_reader if $pid;

    close $to_reader;
    my $filter = $CLASS->new_readonly($path);
    while (my $line = <$questions>) {
        chomp $line;
        my $renewed = eval { $filter->refresh };
        warn "the old list is still served: $@" if !defined $renewed;
        print $answers $line, $filter->contains($line) ? ' is' : ' is not',
            ' listed', $renewed ? ", by the new list\n" : "\n";
    }
    exit;
}
