#!/usr/bin/perl
# Publishes a frozen file through Redis, for reader.pl on other hosts.
#
#   publish.pl [OPTIONS] KEY FILE
#
#   --server HOST:PORT|SOCKET   the Redis server (127.0.0.1:6379)
#   --chunk BYTES               size of a piece (1 MiB)
#   --keep SECONDS              how long an unfinished or replaced version stays
#                               (600)
#
# FILE comes from save or freeze, and must verify.  A version is a hash of
# pieces; nobody looks at it before KEY:current names it, all of it at once.  A
# publisher that dies before leaves pieces that expire.
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use Digest::SHA ();
use Getopt::Long ();
use JSON::PP ();
use Redis ();

my $CLASS  = 'Data::CountingBloomFilter::Shared';
my $JSON   = JSON::PP->new->ascii->canonical;
my %option = (server => '127.0.0.1:6379', chunk => 1 << 20, keep => 600);

Getopt::Long::GetOptions(\%option, 'server=s', 'chunk=i', 'keep=i')
    && @ARGV == 2 && $option{chunk} > 0 && $option{keep} > 0
    or die "usage: publish.pl [--server HOST:PORT|SOCKET] [--chunk BYTES] "
    . "[--keep SECONDS] KEY FILE\n";
my ($key, $file) = @ARGV;

my $in    = open_whole($file);
my $redis = Redis->new(($option{server} =~ m{/} ? 'sock' : 'server')
    => $option{server}, cnx_timeout => 10, read_timeout => 60);
my $new = send_pieces("$key:" . $redis->incr("$key:serial"));
make_current($new);
print "$key: version $new->{version}, $new->{bytes} bytes in $new->{pieces} "
    . "pieces\n";

# The file, opened; and that one, not another that was put at the path since,
# is whole.
sub open_whole {
    my ($path) = @_;
    open my $fh, '<:raw', $path or die "$path: $!\n";
    my $verified = $CLASS->new_readonly($path)->verify;
    die "$path: not what was saved\n" if !$verified;
    die "$path: replaced just now\n"
        if join(' ', (stat $fh)[0, 1]) ne join ' ', (stat $path)[0, 1];
    return $fh;
}

# Each piece gives the version some more time to become the current one.
sub send_pieces {
    my ($name) = @_;
    my ($sha, $pieces, $bytes) = (Digest::SHA->new(256), 0, 0);
    while (1) {
        my $got = read($in, my $piece, $option{chunk});
        die "$file: $!\n" if !defined $got;
        last if !$got;
        $sha->add($piece);
        $redis->hset($name, $pieces++, $piece);
        $redis->expire($name, $option{keep});
        $bytes += $got;
    }
    return {
        version => ($name =~ /([0-9]+)\z/)[0] + 0,
        bytes   => $bytes,
        pieces  => $pieces,
        sha256  => $sha->hexdigest,
    };
}

# Of several publishers the one with the highest number wins, in whatever order
# they end.  What it replaces stays for those who are in the middle of it.
sub make_current {
    my ($mine) = @_;
    my $name = "$key:$mine->{version}";
    while (1) {
        $redis->watch("$key:current", $name);
        my $was = $redis->get("$key:current");
        $was = $JSON->decode($was)->{version} if defined $was;
        if (defined $was && $was > $mine->{version}) {
            $redis->unwatch;
            $redis->del($name);
            die "$key: version $was is newer, and was published meanwhile\n";
        }
        if ($redis->hlen($name) != $mine->{pieces}) {
            $redis->unwatch;
            die "$key: pieces of version $mine->{version} are gone again; "
                . "is there memory for them, is --keep enough?\n";
        }
        $redis->multi;
        $redis->persist($name);
        $redis->expire("$key:$was", $option{keep}) if defined $was;
        $redis->set("$key:current", $JSON->encode($mine));
        last if $redis->exec;    # nothing came between
    }
    return;
}
