package CoreBuild;

# Builds C test programs from the core, without Perl's headers, and runs them.
#
# Knows where the distribution is from its own place, so it works from any
# directory, in the unpacked archive too.  Everything it makes is in one
# temporary directory, which goes with the process.  Knows nothing of what the
# programs test.

use strict;
use warnings;

use Config;
use Cwd ();
use Errno ();
use Exporter 'import';
use File::Basename qw(basename dirname);
use File::Glob ();
use File::Spec::Functions qw(catdir catfile file_name_is_absolute path);
use File::Temp ();
use IO::Handle;
use POSIX ();
use Test::More ();
use Time::HiRes ();

our @EXPORT_OK = qw(build_program core_compiler core_file core_programs
    program_markers run_program);

my $root = Cwd::abs_path(catdir(dirname(Cwd::abs_path(__FILE__)), '..', '..'));
my $owner = $$;
my $temp;       # made when first needed
my %object;     # key of a compilation => [object file, output]
my $made = 0;   # numbers what is made
my $ENDING = 20; # seconds that a program may take from its plan to its end

# A file of the distribution, from its path there.
sub core_file { return catfile($root, @_) }

# All C test programs of a directory of the distribution, sorted.
sub core_programs {
    my ($dir) = @_;
    my @found = sort(File::Glob::bsd_glob("\Q$root\E/$dir/*.c"));

    return @found;
}

# How a program wants to be built, from the comments in its first ten lines:
# a list of references to lists of flags, one for each time it is to be run.
sub program_markers {
    my ($source) = @_;
    my @always;
    my @variants = ([]);

    open my $in, '<', $source or die "$source: $!\n";
    while (my $line = <$in>) {
        last if $. > 10;
        push @always, '-DCBF_TESTING' if $line =~ m{\A/\*\s*kill-points\s*\*/};
        push @always, split ' ', $1
            if $line =~ m{\A/\*\s*build:\s*(\S.*?)\s*\*/};
        push @variants, [split ' ', $1]
            if $line =~ m{\A/\*\s*variant:\s*(\S.*?)\s*\*/};
    }
    return map { [@always, @$_] } @variants;
}

# The compiler as a list of words: the one asked for, else the one that built
# perl, else what there is.  Empty if there is none.
sub core_compiler {
    my ($wanted) = @_;

    for my $command (defined $wanted ? $wanted : ($Config{cc}, 'cc', 'gcc')) {
        my @words = split ' ', $command;
        return @words if @words && _is_command($words[0]);
    }
    return;
}

sub _is_command {
    my ($name) = @_;

    return -x $name if file_name_is_absolute($name);
    return !!grep { -f && -x _ } map { catfile($_, $name) } path();
}

# Runs a command; its output, both streams, and whether it succeeded.
sub _capture {
    my @command = @_;
    my $pid = open my $out, '-|';

    die "fork: $!\n" if !defined $pid;
    if (!$pid) {
        open STDERR, '>&', \*STDOUT or POSIX::_exit(127);
        no warnings 'exec';
        exec { $command[0] } @command;
        print STDOUT "$command[0]: $!\n";
        STDOUT->flush;
        POSIX::_exit(127);
    }
    my $text = do { local $/; <$out> };
    return (defined $text ? $text : '', close $out);
}

# Where programs may be run: not every temporary directory allows it.
sub _temp {
    return "$temp" if $temp;
    for my $place ([TMPDIR => 1], [DIR => $root]) {
        $temp = eval { File::Temp->newdir('cbf-core-XXXXXX', @$place) };
        return "$temp" if $temp && _runs_programs("$temp");
    }
    die "no directory in which programs can be run\n";
}

sub _runs_programs {
    my ($dir) = @_;
    my $script = catfile($dir, 'true');

    open my $out, '>', $script or return 0;
    print {$out} "#!/bin/sh\n";
    close $out or return 0;
    chmod 0700, $script or return 0;
    return (_capture($script))[1];
}

# Compiles one file, once for each set of flags; the object or undef, and the
# compiler's output.
sub _object {
    my ($compiler, $flags, $source) = @_;
    my $key = join "\0", @$compiler, '', @$flags, '', $source;

    if (!$object{$key}) {
        my $name = basename($source, '.c') . '-' . $made++ . '.o';
        my $object = catfile(_temp(), $name);
        my ($text, $done) = _capture(@$compiler, @$flags, '-c', $source,
            '-o', $object);
        $object{$key} = [$done ? $object : undef, $text];
    }
    return @{$object{$key}};
}

# Builds a program.  Returns its path, or undef, and the compiler's output:
# warnings, or what went wrong.
#
#   source   path of the file with main
#   core     names of the core's files to link, without ending; default: all
#   cc       the compiler, a string; default: see core_compiler
#   flags    reference to a list, after the default ones, for compiler and
#            linker
#   libs     reference to a list, before the default ones
sub build_program {
    my (%how) = @_;
    my @compiler = core_compiler($how{cc});
    my @core = $how{core}
        ? map { core_file('xs', 'core', "$_.c") } @{$how{core}}
        : core_programs('xs/core');
    my @flags = (qw(-std=gnu11 -O2 -g -Wall -Wextra),
        '-I' . core_file('xs', 'core'), '-I' . core_file('t', 'core'),
        @{$how{flags} || []});
    my @objects;
    my $output = '';

    return (undef, 'no C compiler found') if !@compiler;
    for my $source (@core, $how{source}) {
        my ($object, $text) = _object(\@compiler, \@flags, $source);
        $output .= $text;
        return (undef, $output) if !defined $object;
        push @objects, $object;
    }
    my $name = basename($how{source}, '.c') . '-' . $made++;
    my $program = catfile(_temp(), $name);
    my ($text, $done) = _capture(@compiler, @flags, @objects, '-o', $program,
        @{$how{libs} || []}, qw(-lm -lpthread));
    return ($done ? $program : undef, $output . $text);
}

# Runs a program and passes its results on to Test::More, as tests of the
# current plan or subtest, which must have none yet: use done_testing or a
# subtest.  Beside the program's own results there is one for how it ended: it
# must announce a plan and keep it, number its results from 1 and exit with 0,
# within a time.
#
#   seconds   the time; default 60
#   env       reference to a hash, added to the environment
sub run_program {
    my ($program, %how) = @_;
    my $seconds = $how{seconds} || 60;
    my %seen = (results => 0, faults => []);
    my ($pid, $out) = _start($program, $how{env} || {});
    my $late = _read_lines($out, $seconds, \%seen);

    # First of all, since closing the pipe waits for the program.
    kill KILL => -$pid, $pid if defined $late;
    close $out;
    $seen{status} = $?;
    push @{$seen{faults}}, $late if defined $late;
    _judge($program, \%seen);
    return;
}

# Takes all that comes out of a pipe; undef, or a complaint if it does not come
# to its end in time.  By select, since an alarm just before a read is lost.
sub _read_lines {
    my ($out, $seconds, $seen) = @_;
    my $deadline = _now() + $seconds;
    my $rest = '';

    while (1) {
        my $left = $deadline - _now();
        my $ready = '';

        if ($left <= 0) {
            return "not done after $seconds s" if !defined $seen->{plan};
            return "it or a child of it still ran $ENDING s after its plan";
        }
        vec($ready, fileno $out, 1) = 1;
        next if select($ready, undef, undef, $left) < 1;

        my $n = sysread $out, $rest, 65536, length $rest;
        next if !defined $n && $!{EINTR};
        last if !$n;
        while ($rest =~ s/\A(.*)\n//) {
            _take($1, $seen);
            # The plan comes last; whoever holds the pipe open after it is a
            # child that the program forgot.
            $deadline = _now() + $ENDING if defined $seen->{plan};
        }
    }
    _take($rest, $seen) if length $rest;
    return;
}

sub _now { return Time::HiRes::clock_gettime(Time::HiRes::CLOCK_MONOTONIC()) }

# In a process group of its own, so that its children can be stopped too.
sub _start {
    my ($program, $env) = @_;
    my $pid = open my $out, '-|';

    die "fork: $!\n" if !defined $pid;
    if (!$pid) {
        POSIX::setpgid(0, 0);
        @ENV{keys %$env} = values %$env;
        no warnings 'exec';
        exec { $program } $program;
        POSIX::_exit(127);
    }
    return ($pid, $out);
}

# One line of TAP.
sub _take {
    my ($line, $seen) = @_;
    my $test = Test::More->builder;

    if ($line =~ /\A(not )?ok (\d+)(?: - (.*?))?(?:\s+# (skip)\s*(.*))?\z/i) {
        my ($not, $number, $name, $skip, $why) = ($1, $2, $3, $4, $5);

        $seen->{results}++;
        $seen->{failing} = $not;
        push @{$seen->{faults}}, "result $number where $seen->{results} was due"
            if $number != $seen->{results};
        return $test->skip("$name: $why") if $skip && !$not;
        return $test->ok(!$not, $name);
    }
    if ($line =~ /\A1\.\.(\d+)(?:\s+# skip\s*(.*))?\z/i) {
        push @{$seen->{faults}}, 'a second plan' if defined $seen->{plan};
        $seen->{plan} = $1;
        $seen->{reason} = $2;
        return;
    }
    return $test->diag($1) if $line =~ /\A# ?(.*)\z/ && $seen->{failing};
    return $test->note($1) if $line =~ /\A# ?(.*)\z/;
    push @{$seen->{faults}}, "said: $line";
    return;
}

# How it ended.
sub _judge {
    my ($program, $seen) = @_;
    my $test = Test::More->builder;
    my @faults = @{$seen->{faults}};
    my $status = $seen->{status};
    my $plan = $seen->{plan};

    push @faults, 'died of signal ' . ($status & 127) if $status & 127;
    push @faults, 'exit status ' . ($status >> 8) if $status >> 8;
    push @faults, 'no plan' if !defined $plan;
    push @faults, "a plan of $plan, and $seen->{results} results"
        if defined $plan && $plan != $seen->{results};
    push @faults, 'no results and no reason'
        if defined $plan && !$plan && !defined $seen->{reason};
    $test->note("skipped: $seen->{reason}") if defined $seen->{reason};
    my $name = basename($program) =~ s/-\d+\z//r;
    $test->ok(!@faults, "$name ran to its end");
    $test->diag($_) for @faults;
    return;
}

END {
    local $?;
    undef $temp if $$ == $owner;
}

1;
