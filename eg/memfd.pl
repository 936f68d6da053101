#!/usr/bin/perl
# A producer fills a filter that has no name in any file system, and hands it to
# an unrelated consumer over a UNIX socket.  Both then use the same memory.
#
#   memfd.pl [proc]
#
# A descriptor travels as SCM_RIGHTS.  Core Perl has no sendmsg, so this calls
# the kernel itself on the two processors whose numbers it knows.  Elsewhere, or
# with "proc", the producer only says which descriptor of which process it is,
# and the consumer opens that: simpler, but it needs /proc, the same user (or
# root) on both sides and a producer that still runs.
use strict;
use warnings;
use Config;
use Data::CountingBloomFilter::Shared;
use File::Temp ();
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM SOL_SOCKET SCM_RIGHTS);

my %numbers = (    # sendmsg, recvmsg
    x86_64  => [46,  47],
    aarch64 => [211, 212],
);
my ($processor) = $Config{archname} =~ /\A([^-]+)/;
my $call = $numbers{$processor};
undef $call if @ARGV && $ARGV[0] eq 'proc';

my $dir    = File::Temp->newdir;
my $listen = IO::Socket::UNIX->new(
    Type => SOCK_STREAM, Local => "$dir/socket", Listen => 1)
    or die "socket: $!";

my $pid = fork // die "fork: $!";
if (!$pid) {
    undef $listen;
    consume("$dir/socket");
    exit;
}
produce($listen->accept // die "accept: $!");
waitpid $pid, 0;
exit($? ? 1 : 0);

sub produce {
    my ($socket) = @_;
    my $filter =
        Data::CountingBloomFilter::Shared->new_memfd('jobs', 10_000, 0.001);
    $filter->add_many([map { "job-$_" } 1 .. 1000]);
    send_descriptor($socket, $filter->memfd);

    # The consumer crosses off what it has done; we see it, nothing is copied.
    readline $socket;
    my $left = grep { $filter->contains("job-$_") } 1 .. 1000;
    print "producer: $left of 1000 jobs left\n";
    return;
}

sub consume {
    my ($path) = @_;
    my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path)
        or die "connect: $!";
    my $handle = receive_descriptor($socket);

    # The filter keeps a duplicate of its own.
    my $filter =
        Data::CountingBloomFilter::Shared->new_from_fd(fileno $handle);
    close $handle;
    my $done = $filter->remove_many([map { "job-$_" } 1 .. 600]);
    $| = 1;
    my $way = $call ? 'SCM_RIGHTS' : '/proc';
    print "consumer: $done jobs done, by $way\n";
    print $socket "done\n";
    return;
}

# A struct cmsghdr (its length, level and type) with one int, padded to 24.
sub send_descriptor {
    my ($socket, $fd) = @_;
    if (!$call) {
        print $socket "$$ $fd\n";
        return;
    }
    my $control = pack 'Q i3 x4', 20, SOL_SOCKET, SCM_RIGHTS, $fd;
    transfer($call->[0], $socket, \$control);
    return;
}

sub receive_descriptor {
    my ($socket) = @_;
    if (!$call) {
        my ($owner, $number) = split ' ', scalar readline $socket;
        open my $handle, '+<', "/proc/$owner/fd/$number" or die "open: $!";
        return $handle;
    }
    vec(my $control = '', 23, 8) = 0;
    transfer($call->[1], $socket, \$control);
    my ($length, $level, $type, $fd) = unpack 'Q i3', $control;
    die "no descriptor came\n" if $length != 20 || $type != SCM_RIGHTS;
    open my $handle, '+<&=', $fd or die "descriptor $fd: $!";
    return $handle;
}

# One byte of data with the control data: a struct msghdr without a name, with
# one struct iovec and no flags.  vec makes a buffer the kernel may write to.
sub transfer {
    my ($number, $socket, $control) = @_;
    vec(my $byte = '', 0, 8) = 0;
    my $vector  = pack 'P Q', $byte, 1;
    my $message = pack 'Q L x4 P Q P Q i x4', 0, 0, $vector, 1, $$control,
        length $$control, 0;
    syscall($number, fileno($socket), $message, 0) == 1
        or die "descriptor not passed: $!\n";
    return;
}
