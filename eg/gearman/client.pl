#!/usr/bin/perl
# Has workers build a partial filter of each shard, merges what they send, and
# publishes the whole with save: readers see the old file or the new one.
#
#   client.pl [OPTIONS] TARGET CAPACITY FP_RATE SHARD...
#
#   --server HOST:PORT   a job server; more than one may be given
#   --batch N            shards asked for at a time (16)
#   --timeout SECONDS    how long to wait for such a batch (600)
#   --tries N            how often to ask for a shard (3)
#
# CAPACITY is that of the whole.  SHARDs are names below the workers' roots.
# What is counted twice can't be told apart later, so each shard goes in once:
# whoever answered, however often, and whatever its name.  An answer that is not
# exactly right is refused and asked for again.  Unless all shards are in,
# nothing is published and the exit status is 1.
use strict;
use warnings;
use Compress::Zlib ();
use Data::CountingBloomFilter::Shared;
use Digest::SHA ();
use Gearman::Client;
use Getopt::Long ();
use JSON::PP ();

my $CLASS      = 'Data::CountingBloomFilter::Shared';
my $JSON       = JSON::PP->new->ascii->canonical;
my $LARGEST    = 1 << 30;    # more than this is no load for a job server
my %option     = (server => [], batch => 16, timeout => 600, tries => 3);

Getopt::Long::GetOptions(\%option, 'server=s@', 'batch=i', 'timeout=i',
    'tries=i') && @ARGV > 3 && !grep { $option{$_} < 1 } qw(batch timeout tries)
    or die "usage: client.pl [--server HOST:PORT]... [--batch N] "
    . "[--timeout SECONDS] [--tries N] TARGET CAPACITY FP_RATE SHARD...\n";
my ($target, @geometry) = splice @ARGV, 0, 3;
my @shards = @ARGV;

my $size = $CLASS->geometry(@geometry)->{mmap_size};
die "$size bytes an image are too many: see README\n" if $size > $LARGEST;
my $whole = $CLASS->new(undef, @geometry);
my $lines = 0;
my (%merged, %name_of);    # shard => 1; digest of a shard's bytes => its name

my @left = once(@shards);
for my $try (1 .. $option{tries}) {
    last if !@left;
    sleep 1 if $try > 1;
    my @todo = @left;
    @left = ();
    while (my @batch = splice @todo, 0, $option{batch}) {
        push @left, ask_for(@batch);
    }
}
if (@left) {
    warn "nothing is published, these shards are missing: @left\n";
    exit 1;
}
publish();

# Each name once.
sub once {
    my %seen;
    return grep {
        my $again = $seen{$_}++;
        warn "$_: named more than once, taken once\n" if $again;
        !$again;
    } @_;
}

# Asks for shards and merges what comes; which are still missing then.  A client
# of its own each time: one that has timed out may get answers that come late,
# and one that lost its job server tries the next.
sub ask_for {
    my (@batch) = @_;
    my $client = Gearman::Client->new(job_servers =>
        @{ $option{server} } ? $option{server} : ['127.0.0.1:4730']);
    my $tasks = $client->new_task_set;
    my $asked = eval {
        for my $shard (@batch) {
            my $job = $JSON->encode({ shard => $shard,
                capacity => $geometry[0], fp_rate => $geometry[1] });
            $tasks->add_task(cbf_partial => \$job, {
                on_complete => sub { take($shard, $_[0]) },
                on_fail     => sub { warn "$shard: ", $_[0] // 'failed', "\n" },
            });
        }
        $tasks->wait(timeout => $option{timeout});
        1;
    };
    warn "the job server is lost: $@" if !$asked;
    return grep { !$merged{$_} } @batch;
}

# Merges an answer, or says why not.  Nothing is changed before all is checked.
sub take {
    my ($shard, $answer) = @_;
    return if $merged{$shard};
    my ($head, $partial) = eval { checked($shard, $answer) };
    if (!$head) {
        warn "$shard: refused: $@";
        return;
    }
    my $same = $name_of{ $head->{input} };
    if (defined $same) {
        warn "$shard: the same bytes as $same, taken once\n" if $head->{lines};
    }
    else {
        $whole->merge($partial);
        $lines += $head->{lines};
        $name_of{ $head->{input} } = $shard;
    }
    $merged{$shard} = 1;
    return;
}

# The head of an answer and the filter in it, or an exception.
sub checked {
    my ($shard, $answer) = @_;
    $$answer =~ /\A(\{[^\n]*\})\n/ or die "no answer of a worker\n";
    my $head  = $JSON->decode($1);
    my $image = substr $$answer, $+[0];
    die "the worker says: $head->{error}\n" if defined $head->{error};
    die "an answer for another shard\n" if ($head->{shard} // '') ne $shard;
    die "no digest of the input, or no number of lines\n"
        if ($head->{input} // '') !~ /\A[0-9a-f]{64}\z/
        || ($head->{lines} // '') !~ /\A[0-9]+\z/;
    die "the image was damaged on the way\n"
        if Digest::SHA::sha256_hex($image) ne ($head->{image} // '');
    my $filter = $CLASS->new_from_bytes(Compress::Zlib::uncompress(\$image)
        // die "the image can't be unpacked\n");
    die "the image is one of another geometry\n"
        if grep { $filter->$_ != $whole->$_ } qw(counters hashes);
    my $stats = $filter->stats;
    die "the image does not hold $head->{lines} lines\n"
        if !$stats->{saturated} && $stats->{items} != $head->{lines};
    return $head, $filter;
}

sub publish {
    $whole->save($target, 0644);
    $CLASS->new_readonly($target)->verify
        or die "$target: what was written is not what was saved\n";
    my $stats = $whole->stats;
    printf "%s: %d shards, %d lines, about %d different, %d bytes, "
        . "a wrong yes in %.2g of all answers\n", $target,
        scalar(values %name_of), $lines, $stats->{count}, $stats->{mmap_size},
        $stats->{estimated_fp_rate};
    return;
}
