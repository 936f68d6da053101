#!/usr/bin/perl
# What a handle and a batch cost in memory.  See bench/README.
#
#   perl -Mblib bench/memory.pl [--quick]
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use CBFBench;
use Data::CountingBloomFilter::Shared;
use File::Temp ();
use POSIX ();

# Once more with an allocator that hands large buffers back at once, or what an
# earlier call left behind would hide what a later one takes.
if (!$ENV{MALLOC_MMAP_THRESHOLD_}) {
    $ENV{MALLOC_MMAP_THRESHOLD_} = 131_072;
    exec $^X, (map { "-I$_" } grep { !ref } @INC), $0, @ARGV;
    die "exec: $!";
}

my $CLASS   = 'Data::CountingBloomFilter::Shared';
my %option  = options();
my $HANDLES = 1000;
my $BATCH   = $option{quick} ? 200_000 : 1_000_000;
$| = 1;

describe($CLASS);
handles();
batches();

sub handles {
    heading("$HANDLES handles of one file");
    my $dir  = File::Temp->newdir;
    my $file = "$dir/handles";
    my @kept = ($CLASS->new($file, 1000), (undef) x $HANDLES);
    memory('/proc/self/smaps_rollup', 'Private_Dirty');
    my $before = memory('/proc/self/smaps_rollup', 'Private_Dirty');
    if (!defined $before) {
        print "  not measured: this kernel has no smaps_rollup\n";
        return;
    }
    $kept[$_] = $CLASS->new($file, 1000) for 1 .. $HANDLES;
    my $each = (memory('/proc/self/smaps_rollup', 'Private_Dirty') - $before)
        / $HANDLES;
    printf "  %-44s %10.0f bytes\n", 'Private_Dirty, a handle', $each;
    compare('a handle, in KiB', $each / 1024, '<=', 1);
    return;
}

sub batches {
    heading("A batch of $BATCH items");
    my $f = $CLASS->new(undef, $BATCH);
    my @keys = keys_from(1, $BATCH);
    $f->add($_) for @keys;    # so that the table's own pages are all there
    for my $call (qw(add_many contains_many remove_many)) {
        next if !$f->can($call);
        my $bytes = peak(sub { my $n = $f->$call(\@keys) });
        if (!defined $bytes) {
            print "  not measured: /proc/self/clear_refs can't be written\n";
            return;
        }
        printf "  %-44s %10.1f bytes\n", "the peak of $call, an item",
            $bytes / $BATCH;
        compare("$call, bytes an item (no copy of the items)",
            $bytes / $BATCH, '<=', 17);
    }
    return;
}

sub memory {
    my ($file, $field) = @_;
    open my $in, '<', $file or return undef;
    while (my $line = <$in>) {
        return 1024 * $1 if $line =~ /^\Q$field\E:\s+(\d+) kB/;
    }
    return undef;
}

# How far memory rises during a call, above what it was.
sub peak {
    my ($code) = @_;
    open my $reset, '>', '/proc/self/clear_refs' or return undef;
    defined syswrite $reset, "5\n" or return undef;
    close $reset;
    my $before = memory('/proc/self/status', 'VmRSS');
    $code->();
    return memory('/proc/self/status', 'VmHWM') - $before;
}
