# Filters handed over by descriptor: inherited across fork, or opened through
# /proc/PID/fd/N by a process that was told the number.  The duplicate belongs
# to the handle, the original to the caller, and the memory to all of them.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use Socket ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (2000, 0.001);
watchdog(60);

my $dir = File::Temp->newdir;

# A fresh handle on what a process has open under a number.
sub from_process {
    my ($pid, $fd) = @_;
    open my $fh, '+<', "/proc/$pid/fd/$fd" or die "open: $!";
    return $CLASS->new_from_fd(fileno $fh);    # $fh is closed on return
}

{
    my $f = $CLASS->new_memfd('origin', @PLAN);
    my $fd = $f->memfd;
    cmp_ok($fd, '>', 2, 'a memfd filter has a descriptor');
    like(readlink "/proc/self/fd/$fd", qr/memfd:.*origin/, '... with its name');

    my $g = $CLASS->new_from_fd($fd);
    isnt($g->memfd, $fd, 'new_from_fd duplicates the descriptor');
    is($g->path, undef, '... and has no path');
    is($g->capacity . ' ' . $g->fp_rate, '2000 0.001', '... but the geometry');
    $f->add('from f');
    $g->add('from g');
    is($f->contains('from g') + $g->contains('from f'), 2, 'one memory');
    my $dup = $g->memfd;
    undef $g;
    ok(!-e "/proc/self/fd/$dup", 'its duplicate goes with the handle');
    ok(-e "/proc/self/fd/$fd", "the caller's stays open");
    is($f->contains('from g'), 1, '... and useful');

    my @number = map { $CLASS->new_from_fd($fd)->memfd } 1 .. 50;
    is(scalar(grep { $_ != $dup } @number), 0, 'fifty more leave nothing open');
}
{
    my $f = $CLASS->new_memfd('exec', @PLAN);
    my $g = $CLASS->new_from_fd($f->memfd);
    my $list = join ' ', map { $_->memfd } $f, $g;
    my $seen = qx{$^X -e 'print join " ", grep { -e "/proc/self/fd/\$_" } qw($list)'};
    is($seen, '', 'both descriptors are close-on-exec');
}

# Passed on from process to process; each origin is gone before the next opens.
{
    my $model = CBFModel->new(@PLAN);
    my $first = spawn(sub {
        my ($me) = @_;
        my $f = $CLASS->new_memfd('relay', @PLAN);
        $f->add('link-0');
        $me->tell($f->memfd);
        $me->hear;
        return 'left';
    });
    my @chain = ([$first, ($first->hear(10))[0]]);
    $model->add('link-0');
    for my $n (1 .. 4) {
        my ($before, $fd) = @{ $chain[-1] };
        my $pid = $before->pid;
        my $next = spawn(sub {
            my ($me) = @_;
            my $g = from_process($pid, $fd);
            $g->add("link-$n");
            $me->tell($g->memfd);
            $me->hear;
            return $g->stats->{items};
        });
        my ($number) = $next->hear(10);
        ok(defined $number, "process $n opened it from process @{[$n - 1]}");
        push @chain, [$next, $number];
        $model->add("link-$n");
        $before->tell('go');
        $before->result(10);
    }
    my ($last, $fd) = @{ $chain[-1] };
    my $f = from_process($last->pid, $fd);
    $last->tell('go');
    is(outcome($last->result(10)), 'returned 5', 'all five adds are there');
    ok(substr($f->to_bytes, $CBFProc::AT{table}) eq $model->bytes,
        'and the table is the model\'s');
    is($f->stats->{recovered}, 0, 'each left in order');
}

# Workers that got it in either way, all at work.
{
    my $f = $CLASS->new_memfd('both ways', @PLAN);
    my $fd = $f->memfd;
    my $parent = $$;
    my $model = CBFModel->new(@PLAN);
    my @r = together(4, 15, sub {
        my ($i) = @_;
        my $g = $i == 0 ? $f
            : $i == 1   ? $CLASS->new_from_fd($fd)
            :             from_process($parent, $fd);
        undef $f if $i > 0;
        $g->add("w$i-$_") for 1 .. 300;
        $g->remove("w$i-$_") for 1 .. 100;
        return scalar $g->contains_many([map { "w$i-$_" } 101 .. 300]);
    });
    is(outcome($r[$_]), 'returned 200', "worker $_") for 0 .. 3;
    for my $i (0 .. 3) {
        $model->add("w$i-$_") for 101 .. 300;
    }
    ok(substr($f->to_bytes, $CBFProc::AT{table}) eq $model->bytes,
        'the table is the model\'s');
}

# A file by descriptor.
{
    my $f = $CLASS->new("$dir/by-fd.cbf", @PLAN);
    $f->add('by path');
    open my $fh, '+<', "$dir/by-fd.cbf" or die $!;
    my $g = $CLASS->new_from_fd(fileno $fh);
    close $fh;
    is($g->contains('by path'), 1, 'a file opened by descriptor');
    $g->add('by fd');
    is($f->contains('by fd'), 1, '... is the same filter');
    cmp_ok($g->memfd, '>', 2, '... and memfd tells its number');
    undef $f;
    is($g->add('still'), 1, '... which outlives the handle of the path');
}

# What is no filter, or not open for both.
{
    my $f = $CLASS->new_memfd('refused', @PLAN);
    open my $ro, '<', '/proc/self/fd/' . $f->memfd or die $!;
    open my $null, '+<', '/dev/null' or die $!;
    open my $empty, '+>', "$dir/empty" or die $!;
    pipe(my $rd, my $wr) or die $!;
    socketpair(my $s, my $t, Socket::AF_UNIX(), Socket::SOCK_STREAM(), 0)
        or die $!;
    open my $closed, '<', '/dev/null' or die $!;
    my $gone = fileno $closed;
    close $closed;
    my %bad = (
        'a read-only one'       => fileno $ro,
        'a device'              => fileno $null,
        'an empty file'         => fileno $empty,
        'the end of a pipe'     => fileno $rd,
        'a socket'              => fileno $s,
        'a closed one'          => $gone,
        'a number out of range' => 1_000_000,
        '-1'                    => -1,
    );
    for my $what (sort keys %bad) {
        my $r = in_time(5, sub { $CLASS->new_from_fd($bad{$what}) });
        like($r->{error}, qr/\A\Q$CLASS\E->new_from_fd: /, "$what is refused")
            or diag(outcome($r));
    }
    $f->freeze;
    like(eval { $CLASS->new_from_fd($f->memfd) } || $@,
        qr/\A\Q$CLASS\E->new_from_fd: .*frozen/, 'a frozen one is refused');
    is(-s $empty, 0, 'the empty file is still empty');
}

done_testing;
