package CBFProc;
# Child processes for the tests: start them, talk to them, wait for them no
# longer than a stated time, stop and kill them; gates that let several start
# at one instant; a watchdog that leaves nothing behind when a test hangs; the
# words of a filter's header, read and patched through a file handle of their
# own.  Knows nothing of items, geometry or hashing: that is CBFModel's.
#
# CBF_TEST_SLOW=n multiplies every time limit, for valgrind and the like.
use strict;
use warnings;
use Exporter 'import';
use Fcntl ();
use POSIX ();
use Storable ();
use Time::HiRes ();

our @EXPORT = qw(watchdog spawn together in_time outcome gate handle_on
    peek32 peek64 poke poke32 poke64 bytes_of put_bytes table_of header_of tally_of
    lock_words held_by until_true);

# Where things stand in a file of format version 2.
our %AT = (
    magic => 0, version => 4, k => 8, zero => 12, m => 16, mask => 24,
    capacity => 32, fp_rate => 40, size => 48, slots_at => 56, table_at => 64,
    writer => 72, parked => 76, drain => 80, slotless => 84, ops => 88,
    seal => 96, reserved => 97, ours => 128, slots => 256, bitmap => 16640,
    table => 16768,
);
our $HELD = 0x80000000;

my $SLOW = $ENV{CBF_TEST_SLOW} || 1;

my $owner = $$;
my %running;    # pid => 1: children not yet waited for

# Children may be stopped: SIGKILL ends those too.
sub _end_all { kill 'KILL', keys %running if $$ == $owner }

END { my $status = $?; _end_all(); $? = $status }

# A hung test must fail, also where perl never comes to run a safe handler.
sub watchdog {
    my ($secs) = @_;
    POSIX::sigaction(POSIX::SIGALRM(), POSIX::SigAction->new(sub {
        _end_all();
        syswrite STDERR, "# watchdog: $0 took more than $secs s\n";
        POSIX::_exit(255);
    }));
    alarm $secs * $SLOW;
    return;
}

sub _pipe {
    pipe(my $rd, my $wr) or die "pipe: $!";
    return ($rd, $wr);
}

# ---- gates: everybody waits until the one who made it opens it ----------

sub gate {
    my ($rd, $wr) = _pipe();
    return bless { rd => $rd, wr => $wr }, 'CBFProc::Gate';
}

{
    package CBFProc::Gate;

    sub wait {
        my ($self) = @_;
        close delete $self->{wr} if $self->{wr};
        sysread $self->{rd}, my $byte, 1;
        return;
    }

    sub open {
        my ($self) = @_;
        close delete $self->{wr};
        return;
    }
}

# ---- children -----------------------------------------------------------

# Runs $code->($me) in a child, which then leaves by _exit.  Both sides have
# tell(@list) and hear.  limit: seconds the child may live.
sub spawn {
    my ($code, %opt) = @_;
    my ($from, $to_us)   = _pipe();
    my ($for_it, $to_it) = _pipe();
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        %running = ();
        $SIG{ALRM} = 'DEFAULT';
        alarm(($opt{limit} || 40) * $SLOW);
        close $from;
        close $to_it;
        my $me = bless { in => $for_it, out => $to_us, pid => $$ },
            'CBFProc::Child';
        my @value = eval { (1, $code->($me)) };
        @value = (0, "$@") unless @value;
        $me->tell('done', @value);
        POSIX::_exit(0);
    }
    $running{$pid} = 1;
    close $to_us;
    close $for_it;
    return bless { in => $from, out => $to_it, pid => $pid, buf => '' },
        'CBFProc::Child';
}

# Runs $code->($i) in $n children that start at one instant; their results.
sub together {
    my ($n, $secs, $code) = @_;
    my $gate = gate();
    my @child = map {
        my $i = $_;
        spawn(sub {
            my ($me) = @_;
            $me->tell('ready');
            $gate->wait;
            return $code->($i, $me);
        })
    } 0 .. $n - 1;
    $_->hear($secs) for @child;
    $gate->open;
    my $deadline = Time::HiRes::time() + $secs;
    return map { $_->result($deadline - Time::HiRes::time()) } @child;
}

# Runs $code in a child and waits at most $secs for it.
sub in_time {
    my ($secs, $code) = @_;
    return spawn($code)->result($secs);
}

# What became of a child, in words.
sub outcome {
    my ($r) = @_;
    return 'hung' if $r->{hung};
    return "killed by signal $r->{sig}" if $r->{sig};
    return "exit $r->{exit}, no result" unless $r->{done};
    return $r->{ok}
        ? 'returned ' . join ' ', map { defined ? $_ : 'undef' } @{ $r->{list} }
        : "died: $r->{error}";
}

# Asks again and again until it is so; 0 when $secs have gone by.
sub until_true {
    my ($secs, $code) = @_;
    my $deadline = Time::HiRes::time() + $secs * $SLOW;
    while (!$code->()) {
        return 0 if Time::HiRes::time() > $deadline;
        select undef, undef, undef, 0.002;
    }
    return 1;
}

{
    package CBFProc::Child;

    sub pid { $_[0]{pid} }

    sub tell {
        my ($self, @list) = @_;
        my $frame = pack 'L/a*', Storable::freeze(\@list);
        local $SIG{PIPE} = 'IGNORE';
        while (length $frame) {
            my $n = syswrite $self->{out}, $frame;
            next if !defined $n && $!{EINTR};
            return unless defined $n;
            substr $frame, 0, $n, '';
        }
        return 1;
    }

    # The next list the other side told: empty at its end, or after $secs.
    sub hear {
        my ($self, $secs) = @_;
        return $self->_hear_by(
            defined $secs ? Time::HiRes::time() + $secs * $SLOW : undef);
    }

    sub _hear_by {
        my ($self, $deadline) = @_;
        $self->{buf} = '' unless defined $self->{buf};
        while (1) {
            my $have = length $self->{buf};
            my $need = $have < 4 ? 4 : 4 + unpack 'L', $self->{buf};
            if ($have >= 4 && $have >= $need) {
                my $frame = substr $self->{buf}, 0, $need, '';
                return @{ Storable::thaw(substr $frame, 4) };
            }
            my $left = defined $deadline
                ? $deadline - Time::HiRes::time() : undef;
            my $in = q();
            vec($in, fileno $self->{in}, 1) = 1;
            my $n = select $in, undef, undef,
                defined $left && $left < 0 ? 0 : $left;
            next if $n < 0 && $!{EINTR};
            return if $n <= 0;
            $n = sysread $self->{in}, $self->{buf}, 65536, $have;
            next if !defined $n && $!{EINTR};
            return unless $n;
        }
    }

    # Whether the other side has told something, or has ended.
    sub told {
        my ($self) = @_;
        return 1 if length($self->{buf} || '');
        my $in = '';
        vec($in, fileno $self->{in}, 1) = 1;
        return scalar select $in, undef, undef, 0;
    }

    # Its result; a child that is not done after $secs is killed.
    sub result {
        my ($self, $secs) = @_;
        my $deadline = Time::HiRes::time() + $secs * $SLOW;
        my %r = (hung => 0, done => 0, ok => 0, list => [], error => '');
        while (my @told = $self->_hear_by($deadline)) {
            next unless @told > 1 && $told[0] eq 'done';
            (undef, $r{ok}, my @value) = @told;
            $r{done} = 1;
            if ($r{ok}) { $r{list}  = \@value }
            else        { $r{error} = $value[0] }
            last;
        }
        my $left = $deadline - Time::HiRes::time();
        $r{hung} = 1 if !$r{done} && $left <= 0;
        my $gone = CBFProc::until_true($left > 0.5 ? $left : 0.5,
            sub { waitpid($self->{pid}, POSIX::WNOHANG()) != 0 });
        if (!$gone) {
            $r{hung} = 1;
            CORE::kill 'KILL', $self->{pid};
            waitpid $self->{pid}, 0;
        }
        delete $running{ $self->{pid} };
        $r{sig}  = $gone ? $? & 127 : 0;
        $r{exit} = $? >> 8;
        return \%r;
    }

    # SIGKILL; it is a zombie until reap.
    sub kill {
        my ($self) = @_;
        return CORE::kill('KILL', $self->{pid});
    }

    # Kills it as soon as it is seen to hold the write lock, or $late seconds
    # after that; 0 if that is not seen within $secs.
    sub kill_holding {
        my ($self, $fh, $late, $secs) = @_;
        my $end = Time::HiRes::time() + ($secs || 5) * $SLOW;
        my $seen = 0;
        while (!$seen && Time::HiRes::time() < $end) {
            for (1 .. 50) {
                $seen = CBFProc::held_by($fh) == $self->{pid};
                last if $seen;
            }
        }
        if ($late) {
            my $then = Time::HiRes::time() + $late;
            1 while Time::HiRes::time() < $then;
        }
        $self->kill;
        return $seen;
    }

    # Stops it at an instant at which it holds the write lock; 0 if it never
    # does within $secs.
    sub stop_holding {
        my ($self, $fh, $secs) = @_;
        my $end = Time::HiRes::time() + ($secs || 10) * $SLOW;
        while (Time::HiRes::time() < $end) {
            for (1 .. 200) {
                last if CBFProc::held_by($fh) == $self->{pid};
            }
            $self->stop;
            return 1 if CBFProc::held_by($fh) == $self->{pid};
            $self->cont;
        }
        return 0;
    }

    # Waits until a killed child is dead, and leaves it a zombie.
    sub zombie {
        my ($self) = @_;
        return CBFProc::until_true(5, sub {
            open my $fh, '<', "/proc/$self->{pid}/stat" or return 1;
            my $line = <$fh>;
            return defined $line && $line =~ /\) Z /;
        });
    }

    sub reap {
        my ($self) = @_;
        waitpid $self->{pid}, 0;
        delete $running{ $self->{pid} };
        return $? & 127;
    }

    # SIGSTOP, and waits until it stands.
    sub stop {
        my ($self) = @_;
        CORE::kill('STOP', $self->{pid});
        waitpid $self->{pid}, POSIX::WUNTRACED();
        return;
    }

    sub cont {
        my ($self) = @_;
        return CORE::kill('CONT', $self->{pid});
    }
}

# ---- the words of a filter, through a handle of our own -----------------

# Read-write handle on the memory behind a path or a descriptor number.
sub handle_on {
    my ($what) = @_;
    my $path = $what =~ /\A[0-9]+\z/ ? "/proc/self/fd/$what" : $what;
    open my $fh, '+<:raw', $path or die "$path: $!";
    return $fh;
}

sub _peek {
    my ($fh, $at, $n) = @_;
    sysseek $fh, $at, Fcntl::SEEK_SET() or die "seek: $!";
    my $got = sysread($fh, my $bytes, $n);
    die "short read at $at" unless defined $got && $got == $n;
    return $bytes;
}

sub peek32 { unpack 'L', _peek(@_, 4) }
sub peek64 { unpack 'Q', _peek(@_, 8) }

sub poke {
    my ($fh, $at, $bytes) = @_;
    sysseek $fh, $at, Fcntl::SEEK_SET() or die "seek: $!";
    my $put = syswrite $fh, $bytes;
    die "short write at $at: $!" unless defined $put && $put == length $bytes;
    return;
}

sub poke32 { poke($_[0], $_[1], pack 'L', $_[2]) }
sub poke64 { poke($_[0], $_[1], pack 'Q', $_[2]) }

# All bytes behind a path, a descriptor number or a handle of handle_on.
sub bytes_of {
    my ($what) = @_;
    my $fh = ref $what ? $what : handle_on($what);
    return _peek($fh, 0, -s $fh);
}

# A file with these bytes and no others.
sub put_bytes {
    my ($path, $bytes) = @_;
    open my $fh, '>:raw', $path or die "$path: $!";
    print {$fh} $bytes;
    close $fh or die "close: $!";
    return;
}

sub header_of { substr bytes_of($_[0]), 0, $AT{table} }
sub table_of  { substr bytes_of($_[0]), $AT{table} }

# The pid in the writer word, 0 if it is free.
sub held_by {
    my ($fh) = @_;
    my $word = peek32($fh, $AT{writer});
    return $word & $HELD ? $word & ~$HELD : 0;
}

# Everything that must be zero when nobody has the file open, as one string.
sub lock_words {
    my ($bytes) = @_;
    return substr($bytes, $AT{writer}, 16)
        . substr($bytes, $AT{slots}, $AT{table} - $AT{slots});
}

# Turns each byte of a table into one with as many bits set as $want says of its
# two counters, for counting with unpack: a MiB in milliseconds.
sub _marker {
    my ($want) = @_;
    my $to = join '', map {
        sprintf '\\%03o', ($want->($_ & 15) ? 1 : 0) | ($want->($_ >> 4) ? 2 : 0)
    } 0 .. 255;
    return eval "sub { (my \$s = \$_[0]) =~ tr/\\000-\\377/$to/; \$s }" || die $@;
}

my $mark_set  = _marker(sub { $_[0] > 0 });
my $mark_full = _marker(sub { $_[0] == 15 });

# Recount of packed counters: (above 0, at 15, sum of all).
sub tally_of {
    my ($table) = @_;
    my $bits = sub { unpack '%32b*', $_[0] };
    my $sum = 0;
    $sum += 2**$_ * $bits->($table & chr(17 << $_) x length $table) for 0 .. 3;
    return ($bits->($mark_set->($table)), $bits->($mark_full->($table)), $sum);
}

1;
