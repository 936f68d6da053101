#!/usr/bin/perl
# Runs all that takes long, one after the other, and prints a table of figures:
# kills, faults injected, inputs tried, and how many failures.  After "perl
# Makefile.PL && make", as root for what needs namespaces and mounts:
#
#   perl xt/proofs.pl               about half an hour
#   perl xt/proofs.pl --quick       two minutes; to see that it works
#   perl xt/proofs.pl --seconds N   fuzzing and soaking for so long each
#
# Ends with 0 if nothing failed.  What was skipped is in the table, with the
# reason.
use strict;
use warnings;
use File::Spec ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Time::HiRes ();
use XTTree;

my $long = 600;
my $percent = 100;
my $kills = 160;
while (defined(my $arg = shift)) {
    if ($arg eq '--quick') { ($long, $percent, $kills) = (10, 10, 8) }
    elsif ($arg eq '--seconds' && @ARGV && $ARGV[0] =~ /\A[1-9][0-9]*\z/) {
        $long = shift;
    }
    else { die "usage: proofs.pl [--quick | --seconds N]\n" }
}

# What is run, in words; the files; what they are told.
my @proof = (
    ['random and named kills', ['xt/kills.t'], CBF_STORM_PERCENT => $percent],
    ['kills of Perl processes',
        [glob_of('t/6*.t'), 't/94-writer-killed-mid-batch.t'],
        CBF_TEST_KILLS => $kills, CBF_TEST_SLOW => 4],
    ['who is dead', ['xt/namespaces.t', 't/54-stopped-writer.t']],
    ['damaged files', [glob_of('t/7*.t'), 't/33-file-refused.t']],
    ['fuzzing', ['xt/fuzz.t'], CBF_FUZZ_SECONDS => $long],
    ['full disks', ['xt/disk.t']],
    ['limits', ['xt/limits.t', 't/86-leaks.t', 't/87-many-opens.t']],
    ['soak', ['xt/soak.t'], CBF_SOAK_SECONDS => $long],
);

my $failed = 0;
my @row;
for my $p (@proof) {
    my ($name, $files, %env) = @$p;
    print "==== $name: @$files\n";
    my $began = Time::HiRes::time();
    my %sum = (files => 0, checks => 0, failures => 0);
    for my $file (@$files) {
        local @ENV{keys %env} = values %env;
        # taint mode wants it on the command line
        my ($said, $status) = capture(root(), $^X, '-Mblib', switches($file),
            $file);
        my %got = figures_of($said, $status);
        for my $key (keys %got) {
            if ($key eq 'skipped') { push @{ $sum{skipped} }, $got{$key} }
            elsif ($key =~ /\Aslowest/) {
                $sum{$key} = $got{$key}
                    if !defined $sum{$key} || $got{$key} > $sum{$key};
            }
            else { $sum{$key} += $got{$key} }
        }
        $sum{files}++;
        print $said if $got{failures};
    }
    $failed += $sum{failures};
    push @row, [$name, Time::HiRes::time() - $began, \%sum];
    print row_of($row[-1]);
}

print "\n==== all proofs\n";
print row_of($_) for @row;
print $failed ? "$failed failures\n" : "no failure\n";
exit($failed ? 1 : 0);

sub glob_of {
    my ($pattern) = @_;
    return map { File::Spec->abs2rel($_, root()) } glob root() . "/$pattern";
}

sub switches {
    my ($file) = @_;
    my ($first) = slurp(root() . "/$file") =~ /\A#!.*perl\s+(-\w+)/;
    return defined $first ? $first : ();
}

# Results at every depth, and what "figures:" lines say.
sub figures_of {
    my ($said, $status) = @_;
    my %sum = (checks => 0);
    my ($inner, $outer, $ends) = (0, 0, 0);
    for my $line (split /\n/, $said) {
        if ($line =~ /\A(\s*)(not )?ok \d+(.*)/) {
            my ($deep, $not, $rest) = ($1, $2, $3);
            $sum{checks}++;
            $sum{skipped} = $1 if $rest =~ /# skip\s*(.*)/i;
            next if !$not;
            # one fault fails what it is part of, too
            if    ($rest =~ / ran to its end\z/) { $ends++ }
            elsif (length $deep)                { $inner++ }
            else                                { $outer++ }
        }
        $sum{skipped} = $1 if $line =~ /\A1\.\.0 # SKIP\s*(.*)/;
        $sum{kills} += $1 if $line =~ /\A\s*# (\d+) kills, the slowest/;
        next if $line !~ /\A\s*# figures: (.*)/;
        for (split ' ', $1) {
            my ($key, $n) = split /=/;
            next if $key eq 'faults' || $key eq 'checks' || $key eq 'seconds';
            $sum{$key} = 0 if !exists $sum{$key};
            if ($key =~ /\Aslowest/) { $sum{$key} = $n if $n > $sum{$key} }
            else                     { $sum{$key} += $n }
        }
    }
    $sum{failures} = $inner || $outer || $ends || ($status ? 1 : 0);
    return %sum;
}

sub row_of {
    my ($row) = @_;
    my ($name, $secs, $sum) = @$row;
    my %left = %$sum;
    my $skipped = delete $left{skipped};
    my $failures = delete $left{failures};
    my @figure = map { "$_ $left{$_}" =~ s/_/ /gr } sort keys %left;
    return sprintf("%-26s %6d s  failures %d  %s\n", $name, $secs, $failures,
        join ', ', @figure)
        . join '', map { "    skipped: $_\n" } @{ $skipped || [] };
}
