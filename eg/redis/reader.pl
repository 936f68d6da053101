#!/usr/bin/perl
# Serves the filter that publish.pl published: for each line of standard input,
# whether it is in.
#
#   reader.pl [OPTIONS] KEY PATH
#
#   --server HOST:PORT|SOCKET   the Redis server (127.0.0.1:6379)
#   --every SECONDS             how often to look for a new version (5)
#   --once                      only bring PATH up to date
#
# PATH is this host's copy.  One process a host pulls new versions to it; any
# number of others map it and call refresh between requests, which costs one
# system call, no look at Redis.  A version goes to PATH when all of it is there
# and right.  Until then, and while Redis is away, the last one is served.
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use Digest::SHA ();
use File::Basename ();
use File::Temp ();
use Getopt::Long ();
use JSON::PP ();
use Redis ();

my $CLASS  = 'Data::CountingBloomFilter::Shared';
my $JSON   = JSON::PP->new->ascii;
my %option = (server => '127.0.0.1:6379', every => 5, once => 0);

Getopt::Long::GetOptions(\%option, 'server=s', 'every=f', 'once')
    && @ARGV == 2 && $option{every} > 0
    or die "usage: reader.pl [--server HOST:PORT|SOCKET] [--every SECONDS] "
    . "[--once] KEY PATH\n";
my ($key, $path) = @ARGV;
my $have = -e $path ? digest_of($path) : '';    # the digest of what is at PATH
$| = 1;

my $pulled = try_to_pull();
exit(!$pulled) if $option{once};
my $puller = start_puller();
END { stop($puller) if $puller }
serve($CLASS->new_readonly($path));

# Answers until the input ends.
sub serve {
    my ($filter) = @_;
    while (my $line = <STDIN>) {
        chomp $line;
        eval { $filter->refresh; 1 } or warn "the old one is served: $@";
        print $filter->contains($line), " $line\n";
    }
    return;
}

# The one process of this host that talks to Redis.
sub start_puller {
    my $parent = $$;
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    undef $puller;
    while (getppid == $parent) {
        select undef, undef, undef, $option{every};
        try_to_pull();
    }
    exit;
}

sub stop {
    my ($pid) = @_;
    local $?;
    kill 'TERM', $pid;
    waitpid $pid, 0;
    return;
}

# 1 if PATH is the current version, whether or not it was before.
sub try_to_pull {
    my $fine = eval { pull(); 1 };
    warn "$key: $@" if !$fine;
    return $fine;
}

# A connection of its own each time: Redis may be restarted in between.
sub pull {
    my $redis = Redis->new(($option{server} =~ m{/} ? 'sock' : 'server')
        => $option{server}, cnx_timeout => 10, read_timeout => 60);
    my $current = $redis->get("$key:current") // die "nothing is published\n";
    my $want = $JSON->decode($current);
    return if $want->{sha256} eq $have;

    my $new = File::Temp->new(DIR => File::Basename::dirname($path),
        TEMPLATE => '.pull-XXXXXXXX');
    binmode $new;
    my $sha = Digest::SHA->new(256);
    for my $n (0 .. $want->{pieces} - 1) {
        my $piece = $redis->hget("$key:$want->{version}", $n)
            // die "piece $n of version $want->{version} is missing\n";
        $sha->add($piece);
        print {$new} $piece or die "$new: $!\n";
    }
    $new->flush && $new->sync && close $new or die "$new: $!\n";
    die "version $want->{version} was damaged on the way\n"
        if $sha->hexdigest ne $want->{sha256};
    die "version $want->{version} was damaged before it was published\n"
        if !$CLASS->new_readonly("$new")->verify;
    chmod 0644, "$new" or die "$new: $!\n";
    rename "$new", $path or die "$path: $!\n";
    $new->unlink_on_destroy(0);
    $have = $want->{sha256};
    return;
}

sub digest_of {
    my ($file) = @_;
    return eval { Digest::SHA->new(256)->addfile($file, 'b')->hexdigest } // '';
}
