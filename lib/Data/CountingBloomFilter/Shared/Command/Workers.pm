package Data::CountingBloomFilter::Shared::Command::Workers;
# Several processes that read one input by turns, a block each, work on their
# blocks at the same time and print in the order of the input.
#
# They stand in a ring.  Who holds the reading token reads a block up to the
# last whole item, and sends the rest of it along with the token to the next.
# Who holds the printing token may print, and sends it on, too; since both go
# around the same ring, blocks are printed in the order in which they were read.
# No process holds more than its own block, and none is in charge: this process
# is one of the ring.  A process that dies closes its pipes, and all leave.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(leave stop_if_signalled end_by_signal write_out
    is_broken_pipe);

# A token and what it carries must go into an empty pipe at once, or two that
# wait for each other would wait for ever; a pipe takes 4096 bytes at least.
use constant REST_MAX => 3072;
use constant TOKEN_MAX => 4096;

# What a process dies of when another one has gone.
my $LOST = "the worker processes lost each other\n";

my $TOKEN = 'c Q';    # turns left when the input has ended, or -1; bytes read

# The processors this process may use, at most $most.
sub processors {
    my ($most) = @_;
    my $n = 0;
    if (open my $in, '<', '/proc/self/status') {
        my ($mask) = join('', <$in>) =~ /^Cpus_allowed:\s*([0-9a-f,]+)$/m;
        $n += sprintf('%b', hex) =~ tr/1// for ($mask // '') =~ /[0-9a-f]/g;
    }
    return $n < 1 ? 1 : $n > $most ? $most : $n;
}

# $n processes; $do as for Input's run; $rest: the beginning of the next item;
# $read->(\$text) as read_items with REST_MAX; $work->(\$text) gives what to print.
# Returns the sums of the numbers of all processes but this, or undef if there
# can't be so many: then nothing has been read, and it can be done by one.
sub run {
    my ($class, $n, $do, $rest, $read, $work, $progress) = @_;
    my $had_pipe = $SIG{PIPE} // 'DEFAULT';
    local $SIG{PIPE} = 'IGNORE';
    require POSIX;    # what children leave by, loaded once
    $do->{prepare}->($n) if $do->{prepare};
    my $self = bless {
        n => $n, do => $do, read => $read, work => $work,
        progress => $progress, prints => $do->{prints}, pids => [],
    }, $class;
    if (!eval { $self->_start; 1 }) {
        $self->_end_all;
        stop_if_signalled();
        return undef;
    }
    my @sum;
    if (!eval { @sum = $self->_work_in_ring($rest); 1 }) {
        my $error = $@;
        $self->_end_all;
        stop_if_signalled();
        # What a reader that has gone means to a single process, it means here.
        end_by_signal('PIPE')
            if is_broken_pipe($error) && $had_pipe ne 'IGNORE';
        die $error;
    }
    return \@sum;
}

sub _work_in_ring {
    my ($self, $rest) = @_;
    _send($self->{give}[0],
        pack("$TOKEN a*", -1, $self->{progress}->done, $rest));
    _send($self->{yield}[0], '.') if $self->{prints};
    $self->_keep(0);
    my $ended = eval { $self->_turns(0); 1 };
    my $error = $ended ? '' : $@;
    delete @$self{qw(take give wait yield)};
    die $error if $error ne '' && $error ne $LOST;
    return $self->_collect;
}

# Nobody is left behind, whatever went wrong.
sub _end_all {
    my ($self) = @_;
    delete @$self{qw(take give wait yield result)};
    kill 'KILL', @{ $self->{pids} };
    waitpid $_, 0 for @{ $self->{pids} };
    return;
}

# Pipes and processes.  take[i] and give[i] are the two ends of the pipe that
# brings the reading token to process i; wait and yield those of the other.
sub _start {
    my ($self) = @_;
    for my $i (0 .. $self->{n} - 1) {
        pipe $self->{take}[$i], $self->{give}[$i] or die "pipe: $!\n";
        pipe $self->{wait}[$i], $self->{yield}[$i] or die "pipe: $!\n";
    }
    for my $i (1 .. $self->{n} - 1) {
        pipe my $result, my $answer or die "pipe: $!\n";
        my $pid = fork // die "fork: $!\n";
        if (!$pid) {
            $self->_child($i, $answer);
            leave();
        }
        push @{ $self->{pids} }, $pid;
        $self->{result}[$i] = $result;
    }
    return;
}

# Closes the ends of pipes that are not this process's, for a pipe ends when the
# last one closes it.
sub _keep {
    my ($self, $me) = @_;
    my $next = ($me + 1) % $self->{n};
    for my $i (0 .. $self->{n} - 1) {
        $self->{$_}[$i] = undef for $i == $me ? () : qw(take wait);
        $self->{$_}[$i] = undef for $i == $next ? () : qw(give yield);
    }
    return;
}

# A child's life; it leaves without running anything that is the parent's.
sub _child {
    my ($self, $me, $answer) = @_;
    my $said = eval {
        $self->{result} = undef;
        $self->{progress} = undef;
        $self->_keep($me);
        my @before = $self->{do}{report}->();
        $self->_turns($me);
        my @after = $self->{do}{report}->();
        'ok ' . join ' ', map { $after[$_] - $before[$_] } 0 .. $#after;
    };
    $said //= 'error ' . $@;
    syswrite $answer, $said;
    return;
}

# One process's blocks, until the input ends.
sub _turns {
    my ($self, $me) = @_;
    my ($take, $wait) = ($self->{take}[$me], $self->{wait}[$me]);
    my $next = ($me + 1) % $self->{n};
    my ($give, $yield) = ($self->{give}[$next], $self->{yield}[$next]);
    my $text;
    while (1) {
        my ($left, $bytes, $before) = unpack "$TOKEN a*", _receive($take);
        if ($left >= 0) {
            _send($give, pack $TOKEN, $left - 1, $bytes) if $left > 0;
            return;
        }
        $text = $before;
        my $rest = $self->{read}->(\$text);
        $bytes += length($text) + length($rest // '') - length $before;
        _send($give, defined $rest ? pack("$TOKEN a*", -1, $bytes, $rest)
            : pack($TOKEN, $self->{n} - 2, $bytes));
        $self->{progress}->upto($bytes) if $self->{progress};
        my $out = $self->{work}->(\$text);
        if ($self->{prints}) {
            _receive($wait);
            write_out($out);
            # At the end nobody is left who would wait for it.
            _send($yield, '.') if defined $rest;
        }
        return if !defined $rest;
    }
}

# What a token brought.  An end of the pipe is the end of a process that had no
# business to end: what was wrong is known from that one.
sub _receive {
    my ($pipe) = @_;
    while (1) {
        my $n = sysread $pipe, my $token, TOKEN_MAX;
        return $token if $n;
        die $LOST if defined $n || !$!{EINTR};
        stop_if_signalled();
    }
}

sub _send {
    my ($pipe, $token) = @_;
    while (1) {
        return if defined syswrite $pipe, $token;
        die $LOST if !$!{EINTR};
        stop_if_signalled();
    }
}

# Waits for all children and adds up what they have found.
sub _collect {
    my ($self) = @_;
    my (@sum, @errors);
    for my $i (1 .. $self->{n} - 1) {
        my $said = _all_of($self->{result}[$i]);
        waitpid $self->{pids}[0], 0;
        shift @{ $self->{pids} };
        my ($kind, $rest) = split / /, $said, 2;
        if (!defined $kind || $kind eq '') {
            push @errors, 'a worker process ended by '
                . ($? & 127 ? 'signal ' . ($? & 127) : 'itself') . "\n";
        }
        elsif ($kind eq 'error') { push @errors, $rest }
        else {
            my @more = split / /, $rest;
            $sum[$_] += $more[$_] for 0 .. $#more;
        }
    }
    _die_of(@errors) if @errors;
    return @sum;
}

sub _all_of {
    my ($pipe) = @_;
    my $all = '';
    while (1) {
        my $n = sysread $pipe, $all, TOKEN_MAX, length $all;
        return $all if defined $n && !$n;
        next if defined $n || $!{EINTR};
        return $all;
    }
}

# Dies of the error that the others followed from.
sub _die_of {
    my @errors = @_;
    my ($cause) = grep { $_ ne $LOST } @errors;
    die $cause // $LOST;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Workers - processes on one input

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 METHODS

=head2 run($n, \%callbacks, $rest, $read, $work, $progress)

Works with so many processes until the input ends; undef if there can't be so
many.  See the comment above it.

=head1 FUNCTIONS

=head2 processors($most)

How many processors this process may use.

=cut
