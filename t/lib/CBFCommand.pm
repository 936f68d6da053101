package CBFCommand;
# For the tests of bin/cbf: running it with this or that input, output, terminal
# and environment, and what came of it.  Knows no command of it.
use strict;
use warnings;
use Exporter 'import';
use File::Basename ();
use File::Spec ();
use File::Temp ();
use POSIX ();
use Test::More ();
use CBFTest ();

our @EXPORT = qw(cbf start_cbf end_of fails names_in lines feed unread
    terminal read_terminal children_of $CBF);

my $ROOT = File::Spec->rel2abs(
    File::Spec->catdir(File::Basename::dirname(__FILE__), '..', '..'));
our $CBF = "$ROOT/bin/cbf";

# perl with the same library as the test.
my @PERL = ($^X, map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC);

my $dir = File::Temp->newdir;
my $n   = 0;

# Starts it.  in: text for standard input; in_from, out_to, err_to: handles
# instead; env: variables, undef to remove one; group: 1 for a process group of
# its own; no_in: 1 for no standard input; limits: what the shell's ulimit is told.
# Returns what end_of takes.
sub start_cbf {
    my ($args, %opt) = @_;
    my $base = "$dir/" . $n++;
    my $pid  = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        alarm 0;
        POSIX::setpgid(0, 0) if $opt{group};
        for my $name (keys %{ $opt{env} || {} }) {
            if (defined $opt{env}{$name}) { $ENV{$name} = $opt{env}{$name} }
            else                          { delete $ENV{$name} }
        }
        CBFTest::spew("$base.in", defined $opt{in} ? $opt{in} : '')
            if !$opt{in_from};
        _redirect(\*STDIN,  '<', $opt{in_from}, "$base.in");
        _redirect(\*STDOUT, '>', $opt{out_to},  "$base.out");
        _redirect(\*STDERR, '>', $opt{err_to},  "$base.err");
        my @shell = $opt{limits}
            ? ('sh', '-c', "ulimit $opt{limits}; exec \"\$@\"", 'sh') : ();
        POSIX::close(0) if $opt{no_in};
        exec @shell, @PERL, $CBF, @$args or POSIX::_exit(127);
    }
    POSIX::setpgid($pid, $pid) if $opt{group};
    return { pid => $pid, base => $base, args => $args };
}

sub _redirect {
    my ($handle, $how, $given, $path) = @_;
    if ($given) { open $handle, "$how&", $given or POSIX::_exit(126) }
    else        { open $handle, $how, $path     or POSIX::_exit(126) }
    return;
}

# Waits for it: { status, signal, out, err }.
sub end_of {
    my ($run) = @_;
    waitpid $run->{pid}, 0;
    my ($status, $signal) = ($? >> 8, $? & 127);
    my %said = map {
        my $file = "$run->{base}.$_";
        ($_ => -e $file ? CBFTest::slurp($file) : '');
    } qw(out err);
    unlink map { "$run->{base}.$_" } qw(in out err);
    return { %said, status => $status, signal => $signal };
}

# Runs it to its end: cbf(@words) or cbf(\@words, %options of start_cbf).
sub cbf {
    my ($args, %opt) = ref $_[0] ? @_ : [@_];
    return end_of(start_cbf($args, %opt));
}

# Passes if it ended with status 2, one line on standard error that matches, and
# nothing on standard output.
sub fails {
    my ($run, $pattern, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $fine = $run->{status} == 2 && !$run->{signal} && $run->{out} eq ''
        && $run->{err} =~ /\Acbf: [^\n]*\n\z/ && $run->{err} =~ $pattern
        && $run->{err} !~ / at \S+ line [0-9]+|->/;
    Test::More::ok($fine, $name) or Test::More::diag(
        "status $run->{status}, signal $run->{signal}\n"
        . "out: $run->{out}\nerr: $run->{err}");
    return $fine;
}

# Everything in a directory, also what is hidden.
sub names_in {
    my ($where) = @_;
    opendir my $d, $where or die "$where: $!";
    return join ' ', sort grep { !/\A\.\.?\z/ } readdir $d;
}

sub lines { return join '', map { "$_\n" } @_ }

# All of a text into a pipe.
sub feed {
    my ($pipe, $text) = @_;
    my $put = 0;
    while ($put < length $text) {
        $put += syswrite($pipe, $text, 60_000, $put) || die "pipe: $!";
    }
    return;
}

# Bytes in a pipe that nobody has read yet.
sub unread {
    my ($pipe) = @_;
    my $n = pack 'i', 0;
    ioctl $pipe, 0x541b, $n or return 0;
    return unpack 'i', $n;
}

# ---- processes -----------------------------------------------------------

# The pids of a process's children.
sub children_of {
    my ($parent) = @_;
    my @found;
    for my $file (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $file or next;
        my $line = <$in>;
        next if !defined $line;
        my ($pid, $state, $ppid) = $line =~ /\A([0-9]+) .*\) (\S) ([0-9]+)/s;
        push @found, $pid if defined $ppid && $ppid == $parent && $state ne 'Z';
    }
    return @found;
}

# ---- terminals -----------------------------------------------------------

# Two ends of a terminal of so many columns: ours and the program's; nothing if
# this system has none to give.
sub terminal {
    my ($columns) = @_;
    my ($unlock, $number, $size) = (0x40045431, 0x80045430, 0x5414);
    open my $ours, '+<', '/dev/ptmx' or return;
    my $zero = pack 'i', 0;
    my $n    = $zero;
    ioctl $ours, $unlock, $zero or return;
    ioctl $ours, $number, $n or return;
    sysopen my $theirs, '/dev/pts/' . unpack('i', $n),
        POSIX::O_RDWR() | POSIX::O_NOCTTY() or return;
    my $window = pack 'S4', 24, $columns || 80, 0, 0;
    ioctl $theirs, $size, $window or return;
    return ($ours, $theirs);
}

# All that was written on a terminal, whose other ends we close; line ends as
# the program wrote them.
sub read_terminal {
    my ($ours) = @_;
    my $all = '';
    1 while sysread $ours, $all, 65536, length $all;
    return $all =~ s/\r\n/\n/gr;
}

1;
