package XTServer;
# Programs that run beside a check: servers on loopback, and what talks to them.
# Each one is a child of ours, known by its process id, and ends with the check
# at the latest.  Ports are the kernel's choice.
use strict;
use warnings;
use Exporter 'import';
use File::Spec ();
use File::Temp ();
use IO::Socket::INET ();
use POSIX ();
use Time::HiRes ();
use XTTree;

our @EXPORT = qw(start perl_here until_true listening free_port watchdog);

my $owner = $$;
my %running;

sub _end_all { kill 'KILL', keys %running if $$ == $owner }

END { my $status = $?; _end_all(); $? = $status }

# A hung check must fail and leave no server behind.
sub watchdog {
    my ($secs) = @_;
    POSIX::sigaction(POSIX::SIGALRM(), POSIX::SigAction->new(sub {
        _end_all();
        syswrite STDERR, "# watchdog: $0 took more than $secs s\n";
        POSIX::_exit(255);
    }));
    alarm $secs;
    return;
}

# Perl with the module that is checked.
sub perl_here {
    return $^X, map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC;
}

# Asks again and again until it is so; 0 when $secs have gone by.
sub until_true {
    my ($secs, $code) = @_;
    my $deadline = Time::HiRes::time() + $secs;
    while (!$code->()) {
        return 0 if Time::HiRes::time() > $deadline;
        select undef, undef, undef, 0.01;
    }
    return 1;
}

# A port of 127.0.0.1 that was free just now.
sub free_port {
    my $probe = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'tcp',
        Listen => 1) or die "no port: $!";
    return $probe->sockport;
}

sub listening {
    my ($port) = @_;
    return defined IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port",
        Timeout => 1);
}

# Starts a command, or runs code in a child, without standard input.
sub start {
    my (@command) = @_;
    my $out = File::Temp->new;
    my $err = File::Temp->new;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        %running = ();
        $SIG{ALRM} = 'DEFAULT';
        alarm 0;
        open STDIN,  '<', File::Spec->devnull or die "null: $!";
        open STDOUT, '>&', $out or die "stdout: $!";
        open STDERR, '>&', $err or die "stderr: $!";
        if (ref $command[0]) {
            eval { $command[0]->(); 1 } or syswrite STDERR, $@;
            POSIX::_exit(0);
        }
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    $running{$pid} = 1;
    return bless { pid => $pid, out => $out, err => $err }, __PACKAGE__;
}

sub pid { return $_[0]{pid} }
sub out { return slurp($_[0]{out}->filename) }
sub err { return slurp($_[0]{err}->filename) }

# Its status once it has ended by itself; undef if it has not within $secs.
sub ended {
    my ($self, $secs) = @_;
    my $is = sub {
        return 1 if defined $self->{status};
        return 0 if waitpid($self->{pid}, POSIX::WNOHANG()) != $self->{pid};
        $self->{status} = $?;
        delete $running{ $self->{pid} };
        return 1;
    };
    return until_true($secs, $is) ? $self->{status} : undef;
}

# Sends it a signal.
sub send { return kill $_[1], $_[0]{pid} }

# Ends it: asks first, and waits for it.
sub stop {
    my ($self) = @_;
    return if defined $self->{status};
    $self->send('CONT');
    $self->send('TERM');
    return if defined $self->ended(5);
    $self->send('KILL');
    $self->ended(5);
    return;
}

1;
