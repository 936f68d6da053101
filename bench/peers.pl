#!/usr/bin/perl
# The module beside what a user would pick instead, on the same keys and in the
# same run.  A peer that is not installed is named and left out.  See
# bench/README.
#
#   perl -Mblib bench/peers.pl [--quick] [--rounds N]
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use CBFBench;
use CBFPeers;
use File::Temp ();
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

memory_of(@ARGV[1, 2]) if @ARGV == 3 && $ARGV[0] eq '--memory-of';

my %option = options();
my $rounds = $option{rounds} || ($option{quick} ? 1 : 5);
my $ITEMS  = $option{quick} ? 4_000 : 50_000;    # in the store
my $SINGLE = $option{quick} ? 1_000 : 10_000;    # of those, one call each
my $EACH   = $option{quick} ? 500 : 10_000;      # for each of two processes
my $BATCH  = 1000;
my @COLUMNS = qw(add hit miss add_batch has_batch two bytes false lost);
$| = 1;

# Signals must end what was started as well.
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);

my %keys = (
    in  => [keys_from(1, $ITEMS)],
    out => [keys_from(1 << 30, $ITEMS)],
    two => [map { [keys_from((1 << 31) + $_ * $EACH, $EACH)] } 0, 1],
);
my (@peers, @absent, @shares);

for my $peer (CBFPeers->all) {
    if (eval { $peer->needs; 1 }) { push @peers, $peer; next }
    my ($why) = $@ =~ /\A(.*?)(?: in \@INC.*| at \S+ line \d+\.)?$/m;
    push @absent, $peer->label . ": $why";
}

describe('Data::CountingBloomFilter::Shared',
    rounds => "$rounds, interleaved; medians",
    keys   => "8 to 20 bytes; $ITEMS in the store, $SINGLE one by one; as "
        . 'many that are absent',
    clock  => 'wall clock',
);
heading("Beside its peers: nanoseconds an item; batches of $BATCH");
print "  left out: $_\n" for @absent;
table(rounds($rounds, map { side($_) } @peers));
printf "\nA worker alone had its processor for %.0f %% of the time%s.\n",
    100 * median(@shares), median(@shares) < 0.95
    ? ": the machine was busy,\nand the figures above mean little" : '';

sub wall { return clock_gettime(CLOCK_MONOTONIC) }

# Nanoseconds an item of one call.
sub per_item {
    my ($n, $code) = @_;
    my $start = wall();
    $code->();
    return 1e9 * (wall() - $start) / $n;
}

sub portions {
    my ($keys) = @_;
    my @rest = @$keys;
    my @portions;
    push @portions, [splice @rest, 0, $BATCH] while @rest;
    return @portions;
}

# One round of a peer, from an empty store to a full one.
sub side {
    my ($peer) = @_;
    return sub {
        my $dir   = File::Temp->newdir('cbf-peers-XXXXXX', TMPDIR => 1);
        my $store = $peer->new("$dir", $ITEMS);
        my %got   = alone($store);
        $got{bytes} = $store->bytes;
        $got{bytes} //= fresh_memory($peer);
        $got{bytes} /= $ITEMS;
        $got{two} = two($store) if $store->shared;
        $store->end;
        return map { ($peer->label . " $_" => $got{$_}) } keys %got;
    };
}

sub alone {
    my ($store) = @_;
    my ($in, $out) = @keys{qw(in out)};
    my @first = @{$in}[ 0 .. $SINGLE - 1 ];
    my @other = @{$out}[ 0 .. $SINGLE - 1 ];
    my @later = portions([@{$in}[ $SINGLE .. $ITEMS - 1 ]]);
    my $batch = $store->can('has_batch');
    my ($found, %got) = (0);
    my ($start, $cpu) = (wall(), cpu_seconds());

    $got{add} = per_item($SINGLE, sub { $store->add(\@first) });
    $got{hit} = per_item($SINGLE, sub { $found += $store->has(\@first) });
    if ($store->can('add_batch')) {
        $got{add_batch} = per_item($ITEMS - $SINGLE,
            sub { $store->add_batch($_) for @later });
    }
    else { $store->add($_) for @later }
    $got{miss} = per_item($SINGLE, sub { $store->has(\@other) });
    my @all = portions($in);
    $found = 0;
    my $look = per_item($ITEMS, sub {
        $found += $batch ? $store->has_batch($_) : $store->has($_) for @all;
    });
    $got{has_batch} = $look if $batch;
    $got{lost} = 1 - $found / $ITEMS;
    push @shares, (cpu_seconds() - $cpu) / (wall() - $start)
        if $store->isa('CBFPeers::Module') || $store->isa('CBFPeers::Hash');

    my $false = 0;
    $false += $batch ? $store->has_batch($_) : $store->has($_)
        for portions($out);
    $got{false} = $false / $ITEMS;
    return %got;
}

# Two processes add their own items and look them up, in one store: the wall
# clock over all that both did.
sub two {
    my ($store) = @_;
    my @children;

    $store->leave;
    for my $keys (@{ $keys{two} }) {
        pipe my $from, my $report or die "pipe: $!";
        pipe my $gate, my $to     or die "pipe: $!";
        my $pid = fork // die "fork: $!";
        if (!$pid) {
            close $from;
            close $to;
            close $_->{to} for @children;
            my $good = eval { worker($store, $keys, $report, $gate) };
            POSIX::_exit($good ? 0 : 1);
        }
        push @children, { pid => $pid, from => $from, to => $to };
        close $report;
        close $gate;
    }
    sysread $_->{from}, my $ready, 1 for @children;
    my $start = wall();
    syswrite $_->{to}, '.' for @children;
    for my $child (@children) {
        my $done = sysread $child->{from}, my $finished, 1;
        waitpid $child->{pid}, 0;
        die "a worker failed\n" if !$done || $?;
    }
    my $seconds = wall() - $start;
    $store->join;
    return 1e9 * $seconds / (4 * $EACH);
}

sub worker {
    my ($store, $keys, $report, $gate) = @_;
    $store->join;
    syswrite $report, '.';
    sysread $gate, my $go, 1 or return 0;
    $store->add($keys);
    my $found = $store->has($keys);
    syswrite $report, '.';
    return $found == @$keys || $store->forgets;
}

# Memory of a process is measured in a new one, whose heap holds nothing yet
# that could be used again.  The same in every round, so once is enough.
my %memory;

sub fresh_memory {
    my ($peer) = @_;
    return $memory{$peer} //= do {
        open my $in, '-|', $^X, (map { "-I$_" } grep { !ref } @INC), $0,
            '--memory-of', $peer, $ITEMS or die "$^X: $!\n";
        my $bytes = <$in>;
        close $in or die "measuring memory failed\n";
        0 + $bytes;
    };
}

sub memory_of {
    my ($peer, $n) = @_;
    $peer->needs;
    $peer->new('', 10)->add(['first']);
    my $before = resident();
    my $store = $peer->new('', $n);
    $store->add([keys_from($_, 1)]) for 1 .. $n;
    print resident() - $before, "\n";
    exit 0;
}

sub resident {
    open my $in, '<', '/proc/self/status' or die "/proc/self/status: $!\n";
    while (my $line = <$in>) {
        return 1024 * $1 if $line =~ /^RssAnon:\s+(\d+) kB/;
    }
    die "this kernel does not say RssAnon\n";
}

sub cell {
    my ($figures, $label, $column, $format, $scale) = @_;
    my $rounds = $figures->{"$label $column"} or return '-';
    return sprintf $format, $scale * median(@$rounds);
}

sub table {
    my ($figures) = @_;
    my %title = (add => 'add', hit => 'hit', miss => 'miss',
        add_batch => 'batch add', has_batch => 'batch hit',
        two => 'two at once', bytes => 'bytes', false => 'false %',
        lost => 'lost %');
    my $line = '  %-23s' . '%8s' x 3 . '%10s' x 2 . '%12s' . '%8s' x 3 . "\n";
    printf "\n$line", '', @title{@COLUMNS};
    for my $peer (@peers) {
        my $label = $peer->label;
        printf $line, $label,
            (map { cell($figures, $label, $_, '%.0f', 1) } @COLUMNS[0 .. 5]),
            cell($figures, $label, 'bytes', '%.1f', 1),
            map { cell($figures, $label, $_, '%.2f', 100) } qw(false lost);
    }
    print "\n";
    for my $peer (@peers[1 .. $#peers]) {
        my $label = $peer->label;
        my @ratios = map {
            my $ratio = ratio($figures, "$label $_", "this module $_");
            "$_ " . (defined $ratio ? sprintf('%.1f', $ratio) : '-');
        } @COLUMNS[0 .. 6];
        printf "  %-30s %s\n", "$label / this", join ', ', @ratios;
    }
    return;
}
