#!/usr/bin/perl
# What processes cost each other: readers beside writers, writers beside
# writers, more of them than there are processors.  See bench/README.
#
#   perl -Mblib bench/contention.pl [--quick] [--rounds N]
use strict;
use warnings;
use Config;
use FindBin ();
use lib "$FindBin::Bin/lib";
use CBFBench;
use Data::CountingBloomFilter::Shared;
use List::Util qw(min sum);
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $CLASS   = 'Data::CountingBloomFilter::Shared';
my %option  = options();
my $rounds  = $option{rounds} || ($option{quick} ? 2 : 11);
my $seconds = $option{quick} ? 0.1 : 0.4;
my $cpus    = () = glob '/sys/devices/system/cpu/cpu[0-9]*';
$cpus ||= 1;
$| = 1;

describe($CLASS,
    rounds => "$rounds, interleaved, of $seconds s a window; medians",
    clock  => 'items finished within one wall-clock window for all',
);

# Runs all workers at once for one window; the items each finished a second.  A
# worker is called again and again and returns how many items it has done.
# @had gets the share of the window that each had a processor for, and @alone
# the shares of all that ran alone.
my (@had, @alone);

sub window {
    my @workers = @_;
    @had = ();
    my @running = map { start($workers[$_], @workers <= $cpus ? $_ : undef) }
        0 .. $#workers;
    sysread $_->{from}, my $ready, 1 for @running;

    # They work already, but it counts only from a moment in the near future, so
    # that nobody is ahead of the others.
    my $start = clock_gettime(CLOCK_MONOTONIC) + 0.1;
    my $end   = $start + $seconds;
    syswrite $_->{to}, pack 'd2', $start, $end for @running;
    my @rates;
    for my $child (@running) {
        my $got = sysread $child->{from}, my $result, 16;
        waitpid $child->{pid}, 0;
        die "a worker failed\n" if !$got || $?;
        my ($count, $cpu) = unpack 'Q d', $result;
        push @rates, $count / $seconds;
        push @had, $cpu / $seconds;
    }
    push @alone, $had[0] if @workers == 1;
    return @rates;
}

# Keeps this process on one processor.  Else two that wake at the same time may
# share one for long, and what they cost each other would not be seen.
my %setaffinity = (x86_64 => 203, aarch64 => 122);
my ($processor) = $Config{archname} =~ /\A([^-]+)/;

sub pin {
    my ($cpu) = @_;
    my $call = $setaffinity{$processor} or return;
    vec(my $mask = "\0" x 128, $cpu, 1) = 1;
    syscall($call, 0, length $mask, $mask);
    return;
}

sub start {
    my ($work, $cpu) = @_;
    pipe my $from, my $report or die "pipe: $!";
    pipe my $gate, my $to     or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    return { pid => $pid, from => $from, to => $to } if $pid;

    close $from;
    close $to;
    pin($cpu) if defined $cpu;
    syswrite $report, '.';
    sysread $gate, my $times, 16;
    my ($start, $end) = unpack 'd2', $times;
    $work->() while clock_gettime(CLOCK_MONOTONIC) < $start;
    my ($done, $used) = (0, cpu_seconds());
    $done += $work->() while clock_gettime(CLOCK_MONOTONIC) < $end;
    syswrite $report, pack 'Q d', $done, cpu_seconds() - $used;
    POSIX::_exit(0);
}

# Takes the keys in portions, round and round.
sub portions {
    my ($size, @keys) = @_;
    my @portions;
    push @portions, [splice @keys, 0, $size] while @keys;
    my $next = 0;
    return sub { return $portions[ $next++ % @portions ] };
}

sub reader {
    my ($f, @keys) = @_;
    my $portion = portions(500, @keys);
    return sub {
        my $keys = $portion->();
        for my $key (@$keys) { $f->contains($key) }
        return scalar @$keys;
    };
}

# What it adds it removes, so that the table is the same before each window.
sub writer {
    my ($f, @keys) = @_;
    my $portion = portions(100, @keys);
    return sub {
        my $keys = $portion->();
        for my $key (@$keys) { $f->add($key) }
        for my $key (@$keys) { $f->remove($key) }
        return 2 * @$keys;
    };
}

sub batch_writer {
    my ($f, @keys) = @_;
    my $portion = portions(1000, @keys);
    return sub {
        my $keys = $portion->();
        $f->add_many($keys);
        $f->remove_many($keys);
        return 2 * @$keys;
    };
}

# A side for rounds: named rates of one window, and the same for a second of
# processor time, which other programs on the machine disturb less.
sub side {
    my ($names, @workers) = @_;
    return sub {
        my %rates;
        @rates{@$names} = window(@workers);
        $rates{"$_, pure"} = $rates{$_} / (shift(@had) || 1) for @$names;
        return %rates;
    };
}

# The same where only the sum and the slowest (as a share of the mean) count.
sub crowd {
    my ($name, @workers) = @_;
    return sub {
        my @rates = window(@workers);
        return $name => sum(@rates),
            "$name, the slowest" => min(@rates) * @rates / sum(@rates);
    };
}

sub reader_and_writer {
    my ($title, $f, $read, $write, $reader_target, $writer_target) = @_;
    heading($title);
    my ($reader, $writer) = (reader($f, @$read), writer($f, @$write));
    my $figures = rounds($rounds,
        side(['reader alone'], $reader),
        side(['writer alone'], $writer),
        side(['reader beside the writer', 'writer beside the reader'],
            $reader, $writer),
    );
    show($figures, $_, 1e-3, 'k/s')
        for grep { !/pure/ } sort keys %$figures;
    print "\n";
    my %target = (reader => $reader_target, writer => $writer_target);
    for my $who (qw(reader writer)) {
        my ($other) = grep { $_ ne $who } keys %target;
        my @sides = ("$who beside the $other", "$who alone");
        compare("the $who beside / alone", ratio($figures, @sides), '>=',
            $target{$who});
        compare('  the same for a second of its processor time',
            ratio($figures, map { "$_, pure" } @sides));
    }
    return;
}

sub writers {
    heading('Writers together: single items of a table in the cache');
    my $f = $CLASS->new(undef, 10_000);
    my @workers = map { writer($f, keys_from(1 + 500 * $_, 500)) } 0 .. 7;
    my $figures = rounds($rounds,
        side(['one writer'], $workers[0]),
        crowd('two writers',   @workers[0, 1]),
        crowd('eight writers', @workers),
    );
    show($figures, $_, 1e-3, 'k/s')
        for 'one writer', 'two writers', 'eight writers';
    print "\n";
    my $two   = ratio($figures, 'two writers',   'one writer');
    my $eight = ratio($figures, 'eight writers', 'one writer');
    compare('two writers together / one alone', $two, '>=', $_)
        for 0.9, 1.0;
    compare('eight writers together / one alone', $eight, '>=', $_)
        for 0.8, 0.9;
    compare('the slowest of eight / their mean (none starved)',
        median(@{ $figures->{'eight writers, the slowest'} }), '>=', 0.5);
    return;
}

sub batch_writers {
    heading('Writers together: batches of 1,000');
    if (!$CLASS->can('remove_many')) {
        compare('two batch writers together / one alone', undef, '>=', 1.0);
        return;
    }
    my $f = $CLASS->new(undef, 10_000);
    my @workers = map { batch_writer($f, keys_from(1 + 2000 * $_, 2000)) } 0, 1;
    my $figures = rounds($rounds,
        side(['one batch writer'], $workers[0]),
        crowd('two batch writers', @workers),
    );
    show($figures, $_, 1e-3, 'k/s') for 'one batch writer', 'two batch writers';
    print "\n";
    compare('two batch writers together / one alone',
        ratio($figures, 'two batch writers', 'one batch writer'), '>=', 1.0);
    return;
}

# Adds what it never added before.
sub filler {
    my ($f, $which) = @_;
    my $next = 1 + ($which << 40);
    return sub {
        for my $number ($next .. $next + 99) { $f->add($number) }
        $next += 100;
        return 100;
    };
}

# Each add meets pages that were never touched.  None of them is made while the
# lock is held, so two processes can wait for theirs at the same time.
sub fresh_pages {
    my $capacity = 20_000_000;
    heading("Filling a fresh table for $capacity items");
    my $figures = rounds($rounds,
        sub { return 'one process' =>
            window(filler($CLASS->new(undef, $capacity), 0)) },
        sub {
            my $f = $CLASS->new(undef, $capacity);
            return 'two processes' =>
                sum(window(map { filler($f, $_) } 0, 1));
        },
    );
    show($figures, $_, 1e-3, 'k/s') for 'one process', 'two processes';
    print "\n";
    compare('two processes together / one alone',
        ratio($figures, 'two processes', 'one process'));
    return;
}

# Fair: as many processes as there are share the processors evenly.
sub mixed {
    heading("Two writers and two readers on $cpus processors");
    my $f = $CLASS->new(undef, 10_000);
    my @read = keys_from(1 << 30, 500);
    $f->add_many(\@read);
    my @writers = map { writer($f, keys_from(1 + 500 * $_, 500)) } 0, 1;
    my @readers = map { reader($f, @read) } 0, 1;
    my $fair = min(1, $cpus / 4);
    my $figures = rounds($rounds,
        side(['reader alone'], $readers[0]),
        sub {
            my @rates = window(@writers, @readers);
            return 'two writers' => $rates[0] + $rates[1],
                'the slower reader' => min(@rates[2, 3]) / $fair;
        },
    );
    show($figures, 'two writers',  1e-3, 'k/s');
    show($figures, 'reader alone', 1e-3, 'k/s');
    show($figures, 'the slower reader', 1e-3 * $fair, 'k/s');
    print "\n";
    compare('the slower reader / its fair share',
        ratio($figures, 'the slower reader', 'reader alone'), '>=', 0.8);
    return;
}

my @hot = keys_from(1, 500);
my $small = $CLASS->new(undef, 10_000);
$small->add_many(\@hot);
reader_and_writer('A reader and a writer on the same 500 keys', $small, \@hot,
    \@hot, 0.75, 0.60);

my $large = $CLASS->new(undef, 1_200_000);
my @read  = keys_from(1 << 30, 20_000);
$large->add_many(\@read);
reader_and_writer(
    sprintf('A reader and a writer on different keys, %d KiB',
        $large->counters / 2048),
    $large, \@read, [keys_from(1, 20_000)], 0.85, 0.85);

writers();
batch_writers();
fresh_pages();
mixed();
printf "\nA worker alone had its processor for %.0f %% of the time%s.\n",
    100 * median(@alone), median(@alone) < 0.95
    ? ": the machine was busy,\nand the figures above mean little" : '';
