package CBFTest;

# What the tests share: running a call where a crash or a hang does no harm,
# asking for a croak of the promised shape, small files, and comparing a filter
# with its model.  Holds no expected value of its own.
#
# CBF_TEST_SLOW=n multiplies every time limit, for valgrind and the like.

use strict;
use warnings;
use Exporter 'import';
use POSIX ();
use Test::More ();
use Time::HiRes ();
use CBFModel ();

our @EXPORT = qw($CLASS watchdog limit guarded outcome must_croak must_work
    must_survive croaks error_of slurp spew mode_of as_nobody image_of
    table_is stats_are at_rest_ok);

our $CLASS = 'Data::CountingBloomFilter::Shared';

my $SLOW = $ENV{CBF_TEST_SLOW} || 1;

# ---- time --------------------------------------------------------------

sub limit { $_[0] * $SLOW }

# The last resort: the default action of SIGALRM ends a hung test as a failure.
sub watchdog { alarm limit($_[0] || 60); return }

# ---- calls that may go wrong -------------------------------------------

# Runs a code reference in a forked child and never waits longer than $secs.
# Returns { hung => 0|1, sig => signal number, ok => 0|1, died => 0|1,
#           out => returned value or error text }.
sub guarded {
    my ($secs, $code) = @_;
    pipe my $rd, my $wr or die "pipe: $!";
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        close $rd;
        _report($wr, $code);
        POSIX::_exit(0);
    }
    close $wr;
    my ($buf, $hung) = _read_until($rd, Time::HiRes::time() + limit($secs));
    kill 'KILL', $pid if $hung;
    waitpid $pid, 0;
    my $sig   = $hung ? 0 : $? & 127;
    my $ended = !$hung && !$sig && length $buf;
    my $flag  = length $buf ? substr $buf, 0, 1, '' : '';
    return {
        hung => $hung,
        sig  => $sig,
        ok   => $ended && $flag eq '1' ? 1 : 0,
        died => $ended && $flag eq '0' ? 1 : 0,
        out  => $buf,
    };
}

# The child's half: '1' and the value, or '0' and the error.
sub _report {
    my ($wr, $code) = @_;
    alarm 0;
    my $value = eval { my $x = $code->(); defined $x ? "$x" : '' };
    my $said = defined $value ? "1$value" : '0' . (defined $@ ? $@ : '?');
    utf8::encode($said) if utf8::is_utf8($said);
    syswrite $wr, $said;
    close $wr;
}

# Everything up to the end of the pipe, and whether time ran out before it.
sub _read_until {
    my ($rd, $deadline) = @_;
    my $buf = '';
    while (1) {
        my $left = $deadline - Time::HiRes::time();
        return ($buf, 1) if $left <= 0;
        my $want = '';
        vec($want, fileno $rd, 1) = 1;
        next unless select($want, undef, undef, $left) > 0;
        return ($buf, 0) unless sysread $rd, $buf, 65536, length $buf;
    }
}

sub outcome {
    my ($r) = @_;
    return $r->{hung} ? 'hung'
        : $r->{sig}   ? "killed by signal $r->{sig}"
        : $r->{ok}    ? "returned '$r->{out}'"
        :               "died: $r->{out}";
}

sub _verdict {
    my ($pass, $name, $r) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 2;
    Test::More::ok($pass, $name)
        or Test::More::diag('call ' . outcome($r));
    return $r;
}

# Passes when the guarded call ended with an exception: no crash, no hang, no
# success.
sub must_croak {
    my ($code, $name) = @_;
    my $r = guarded(8, $code);
    return _verdict($r->{died}, $name, $r);
}

# Passes when the guarded call returned normally.
sub must_work {
    my ($code, $name, $secs) = @_;
    my $r = guarded($secs || 8, $code);
    return _verdict($r->{ok}, $name, $r);
}

# Passes when the guarded call neither crashed nor hung, whatever it answered.
sub must_survive {
    my ($code, $name) = @_;
    my $r = guarded(8, $code);
    return _verdict(!$r->{hung} && !$r->{sig}, $name, $r);
}

# The error of a call in this process; undef if it returned.
sub error_of {
    my ($code) = @_;
    local $@;
    return undef if eval { $code->(); 1 };
    return defined $@ && length $@ ? $@ : '(an empty error)';
}

# Passes when the call croaks in the one shape promised: "CLASS->method: " and a
# reason that matches, and says where the caller stands.
sub croaks {
    my ($method, $reason, $code, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $error = error_of($code);
    if (!defined $error) {
        Test::More::fail($name);
        Test::More::diag('call returned');
        return;
    }
    my $where = (caller)[1];
    return Test::More::like($error,
        qr/\A\Q$CLASS\E->\Q$method\E: (?=.*$reason).* at \Q$where\E line \d+/s,
        $name);
}

# Runs the code in a guarded child without root's rights; for what permissions
# forbid.  The module must be loaded by then.
sub as_nobody {
    my ($code) = @_;
    return guarded(8, sub {
        if ($> == 0) {
            my $id = 65534;
            $) = "$id $id";
            $( = $id;
            POSIX::setuid($id) or die "setuid: $!";
        }
        $code->();
    });
}

# ---- files -------------------------------------------------------------

sub slurp {
    my ($path) = @_;
    open my $in, '<:raw', $path or die "$path: $!";
    local $/;
    my $data = <$in>;
    close $in or die "$path: $!";
    return defined $data ? $data : '';
}

sub spew {
    my ($path, $data) = @_;
    open my $out, '>:raw', $path or die "$path: $!";
    print {$out} $data;
    close $out or die "$path: $!";
    return $path;
}

sub mode_of { sprintf '%04o', (stat $_[0])[2] & 07777 }

# ---- a filter against its model ----------------------------------------

# All bytes of a filter: of its file, of its memfd, or an image of it.
sub image_of {
    my ($f) = @_;
    my $from = defined $f->path ? $f->path
        : $f->memfd >= 0        ? '/proc/self/fd/' . $f->memfd
        :                         undef;
    return defined $from ? slurp($from) : $f->to_bytes;
}

# Whether the counter area is, byte by byte, the model's.
sub table_is {
    my ($f, $model, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $got  = CBFModel::parse_file(image_of($f))->{table};
    my $want = $model->bytes;
    return 1 if $got eq $want && !defined $name;
    return Test::More::pass($name) if $got eq $want;
    Test::More::fail(defined $name ? $name : 'the counters are the model\'s');
    my %got  = map { @$_ } CBFModel::unpack_counters($got);
    my %want = map { @$_ } CBFModel::unpack_counters($want);
    my @off = grep { ($got{$_} || 0) != ($want{$_} || 0) }
        sort { $a <=> $b } keys %{ { %got, %want } };
    Test::More::diag(sprintf '%d bytes, expected %d; %d counters differ',
        length $got, length $want, scalar @off);
    Test::More::diag(sprintf '  counter %d: %d, expected %d', $_,
        $got{$_} || 0, $want{$_} || 0) for grep { defined } @off[0 .. 4];
    return 0;
}

# The keys that hold results of floating point arithmetic, where the last bit is
# the compiler's business.
my %ROUNDED = map { $_ => 1 } qw(fill_ratio items estimated_fp_rate);

# Whether stats says what the model says, key by key; other => expected values
# that are not the model's.  With an undefined name it only speaks when not.
sub stats_are {
    my ($f, $model, $name, %other) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $got  = $f->stats;
    my %want = (%{ $model->stats }, %other);
    my @off;
    for my $key (sort keys %{ { %$got, %want } }) {
        my ($g, $w) = map { defined $_ ? $_ : 'nothing' }
            $got->{$key}, $want{$key};
        next if $g eq $w;
        next if $ROUNDED{$key} && $g ne 'nothing'
            && abs($g - $w) <= 1e-12 * abs $w;
        push @off, "stats $key: $g, expected $w";
    }
    return 1 if !@off && !defined $name;
    Test::More::ok(!@off, defined $name ? $name : 'stats are the model\'s');
    Test::More::diag($_) for @off;
    return !@off;
}

# Whether the bytes of a closed file hold no trace of any process.
sub at_rest_ok {
    my ($bytes, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $h = CBFModel::parse_file($bytes);
    my @off = grep { $h->{$_} } qw(writer parked drain slotless journal_state);
    push @off, grep { $h->{$_} =~ /[^\0]/ } qw(slots bitmap reserved_old);
    return Test::More::is("@off", '', $name);
}

1;
