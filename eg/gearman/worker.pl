#!/usr/bin/perl
# Builds partial filters for client.pl, on as many hosts as you like.  A job
# names a shard of the input and a geometry; the answer is the image of a filter
# that holds the shard's lines, compressed, with digests of what was read and of
# what is sent.
# A worker keeps nothing between jobs, so it may be killed at any time: the job
# server gives what it was at to another one.
#
#   worker.pl [--server HOST:PORT]... ROOT
#
# Shards are files below ROOT, a line an item; nothing else is read.
use strict;
use warnings;
use Compress::Zlib ();
use Data::CountingBloomFilter::Shared;
use Digest::SHA ();
use Fcntl qw(O_NONBLOCK O_RDONLY);
use Getopt::Long ();
use JSON::PP ();

my $CLASS = 'Data::CountingBloomFilter::Shared';
my $JSON  = JSON::PP->new->ascii->canonical;    # names of files are bytes
my $BLOCK = 1 << 20;                            # of input, in memory at once

main() if !caller;

sub main {
    Getopt::Long::GetOptions('server=s' => \my @servers) && @ARGV == 1
        or die "usage: worker.pl [--server HOST:PORT]... ROOT\n";
    my ($root) = @ARGV;
    -d $root or die "$root: not a directory\n";

    require Gearman::Worker;
    my $worker = Gearman::Worker->new(
        job_servers => @servers ? \@servers : ['127.0.0.1:4730']);
    $worker->register_function(cbf_partial => sub { answer($root, $_[0]->arg) });
    $worker->work while 1;
    return;
}

# What the client gets for a job: a line of JSON, and the image.  An error is an
# answer, too: a job that fails without one tells nobody why.
sub answer {
    my ($root, $job) = @_;
    my ($head, $image) = eval { partial($root, $JSON->decode($job)) };
    ($head, $image) = ({ error => "$@" =~ s/\s+\z//r }, '') if !$head;
    return $JSON->encode($head) . "\n" . $image;
}

sub partial {
    my ($root, $job) = @_;
    my ($shard, @geometry) = @$job{qw(shard capacity fp_rate)};
    my $in     = open_shard($root, $shard);
    my $filter = $CLASS->new(undef, @geometry);
    my $input  = Digest::SHA->new(256);
    my ($lines, $rest) = (0, '');
    while (1) {
        my $got = sysread($in, my $block, $BLOCK);
        die "$shard: $!\n" if !defined $got;
        last if !$got;
        $input->add($block);
        my @lines = split /\n/, $rest . $block, -1;
        $rest = pop @lines;
        $lines += @lines;
        $filter->add_many(\@lines);
    }
    if (length $rest) {    # a last line without its end
        $filter->add($rest);
        $lines++;
    }
    # A part of the whole is mostly zeros: one of eight shrinks to a fifth.
    my $image = Compress::Zlib::compress($filter->to_bytes, 1);
    return {
        shard => $shard,
        lines => $lines,
        input => $input->hexdigest,
        image => Digest::SHA::sha256_hex($image),
    }, $image;
}

# Whoever reaches the job server may ask; so a name can't lead out of ROOT, nor
# to a pipe that never ends.
sub open_shard {
    my ($root, $shard) = @_;
    die "no shard is named\n" if ref $shard || !length($shard // '');
    die "$shard: not a name below the root\n"
        if !utf8::downgrade($shard, 1) || $shard =~ m{\A/|\0}
        || grep { $_ eq '..' } split m{/}, $shard;
    sysopen my $in, "$root/$shard", O_RDONLY | O_NONBLOCK
        or die "$shard: $!\n";
    -f $in or die "$shard: not a file\n";
    return $in;
}

1;
