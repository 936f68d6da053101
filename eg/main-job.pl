#!/usr/bin/perl
# A pool of forked workers that share one filter reads real text: which words
# were new?  Exactly one worker may be told so.  The result is compared with an
# exact count; then a filter is built in a file, frozen, and queried by a
# process that can only read.  Prints one verdict; exits 1 if anything is off.
#
#   main-job.pl [TOKENS [FILE...]]
#
# Reads at least TOKENS (default: a million) from FILEs, or from the word lists
# and the documentation that this machine has.
use strict;
use warnings;
use Config;
use Data::CountingBloomFilter::Shared;
use File::Find ();
use File::Temp ();
use IO::Uncompress::Gunzip ();

my $CLASS     = 'Data::CountingBloomFilter::Shared';
my $WORKERS   = 4;
my $RATE      = 0.01;
my $STRANGERS = 100_000;    # questions about words that were never added

my $wanted = @ARGV ? shift : 1_000_000;
die "usage: main-job.pl [TOKENS [FILE...]]\n" if $wanted !~ /\A[1-9][0-9]*\z/;
my @files = @ARGV ? @ARGV : find_text($wanted * 20);
my $dir   = File::Temp->newdir;
my $wrong = 0;
$| = 1;

# What is true: an ordinary hash in one process.
my ($n_tokens, %exact) = (0);
for my $file (@files) {
    each_line($file, sub { $n_tokens++, $exact{$_} = 1 for tokens($_[0]) });
}
my $n_exact = keys %exact;
printf "input: %d files, %d tokens, %d of them different\n",
    scalar @files, $n_tokens, $n_exact;
check($n_tokens >= $wanted, "at least $wanted tokens were found");

first_sightings();
build_and_query("$dir/words.cbf");
print "verdict: ", $wrong ? "$wrong checks FAILED" : "all is well", "\n";
exit($wrong ? 1 : 0);

# The pool: workers share an anonymous filter and nothing else.
sub first_sightings {
    my $seen = $CLASS->new(undef, $n_exact, $RATE);
    my @pids;
    for my $n (0 .. $WORKERS - 1) {
        my $pid = fork // die "fork: $!";
        if (!$pid) {
            worker($seen, $n, "$dir/worker-$n");
            exit;
        }
        push @pids, $pid;
    }
    for my $pid (@pids) {
        waitpid $pid, 0;
        check($? == 0, "worker $pid ended well (status $?)");
    }

    my ($read, $twice, $unknown, %first) = (0, 0, 0);
    for my $n (0 .. $WORKERS - 1) {
        my ($tokens, @mine) = slurp_lines("$dir/worker-$n");
        printf "worker %d: %d tokens, %d first sightings\n", $n, $tokens,
            scalar @mine;
        $read += $tokens;
        for my $token (@mine) {
            $twice++ if $first{$token}++;
            $unknown++ if !$exact{$token};
        }
    }

    # A fresh word taken for a known one: the filter's only kind of error.
    my $missed = $n_exact - keys %first;
    printf "first sightings: %d, exactly: %d, missed: %d (%.3f %%), "
        . "configured: %g %%\n", scalar keys %first, $n_exact, $missed,
        100 * $missed / $n_exact, 100 * $RATE;
    check($read == $n_tokens, "the workers read every token");
    check($twice == 0,        "no word was new to two workers");
    check($unknown == 0,      "no word came from nowhere");
    check($missed <= allowed($n_exact), "the error rate is as configured");

    my $lost = grep { !$seen->contains($_) } keys %exact;
    check($lost == 0, "no word that was added is missing");
    my $count = $seen->count;
    printf "count: %d, %.2f %% off\n", $count,
        100 * abs($count - $n_exact) / $n_exact;
    check(abs($count - $n_exact) <= 0.02 * $n_exact + 10,
        "count is right within 2 %");
    print_stats($seen);
    return;
}

# Asks first, since that takes no lock and most words are repeats; then adds.
# Of several workers that add the same new word at once, one is answered 1.
sub worker {
    my ($seen, $n, $report) = @_;
    my ($tokens, @first) = (0);
    for my $file (map { $files[$_] } grep { $_ % $WORKERS == $n } 0 .. $#files)
    {
        each_line($file, sub {
            for my $token (tokens($_[0])) {
                $tokens++;
                next if $seen->contains($token);
                push @first, $token if $seen->add($token);
            }
        });
    }
    open my $out, '>', $report or die "$report: $!";
    print $out "$_\n" for $tokens, @first;
    close $out or die "$report: $!";
    return;
}

# Build, freeze, ship: here to a process that opens the file read-only.
sub build_and_query {
    my ($path) = @_;
    my $filter = $CLASS->new($path, $n_exact, $RATE);
    my @words = sort keys %exact;
    while (my @batch = splice @words, 0, 10_000) {
        $filter->add_many(\@batch);
    }
    $filter->freeze;
    undef $filter;
    chmod 0444, $path or die "chmod $path: $!";

    my $pid = fork // die "fork: $!";
    if (!$pid) {
        $wrong = 0;
        query($path);
        exit($wrong ? 1 : 0);
    }
    waitpid $pid, 0;
    check($? == 0, "the read-only process found all as it should be");
    return;
}

sub query {
    my ($path) = @_;
    my $filter = $CLASS->new_readonly($path);
    my $found  = grep { $filter->contains($_) } keys %exact;
    my $false  = grep { $filter->contains("no such word: $_") } 1 .. $STRANGERS;
    printf "frozen file: %d bytes, %d of %d words found, "
        . "%d of %d strangers (%.3f %%)\n", -s $path, $found, $n_exact, $false,
        $STRANGERS, 100 * $false / $STRANGERS;
    check($found == $n_exact,            "every word is in the frozen file");
    check($false <= allowed($STRANGERS), "and few others seem to be");
    check($filter->frozen && $filter->readonly, "it is frozen and read-only");
    check(!eval { $filter->add('one more'); 1 }, "nothing can be added to it");
    print_stats($filter);
    return;
}

sub print_stats {
    my $stats = $_[0]->stats;
    print "stats:", (map { " $_=$stats->{$_}" } sort keys %$stats), "\n";
    return;
}

# How many of n answers may be wrong: the rate, and four standard deviations.
sub allowed {
    my ($n) = @_;
    return $RATE * $n + 4 * sqrt($RATE * $n);
}

sub check {
    my ($fine, $claim) = @_;
    return if $fine;
    $wrong++;
    print "NOT TRUE: $claim\n";
    return;
}

# ---- input -----------------------------------------------------------------

sub tokens {
    return lc($_[0]) =~ /[a-z0-9]+(?:['_-][a-z0-9]+)*/g;
}

# Calls $code with each line of text; of Perl files, of their POD only.
sub each_line {
    my ($file, $code) = @_;
    my $in = $file =~ /\.gz\z/
        ? IO::Uncompress::Gunzip->new($file, MultiStream => 1)
        : do { open my $fh, '<:raw', $file; $fh };
    die "$file: $!\n" if !$in;
    my $perl = $file =~ /\.p(?:m|od)\z/;
    my $text = !$perl;
    while (defined(my $line = $in->getline)) {
        $text = $line !~ /\A=cut/ if $perl && $line =~ /\A=[a-z]/;
        $code->($line) if $text;
    }
    close $in;
    return;
}

sub slurp_lines {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!";
    chomp(my @lines = <$in>);
    return @lines;
}

# Word lists first, then Perl's manual, licences and documentation, in a fixed
# order, until there are about as many bytes as asked for.
sub find_text {
    my ($enough) = @_;
    my ($bytes, @found, %taken) = (0);
    for my $place ('/usr/share/dict', $Config{privlibexp},
        $Config{archlibexp}, '/usr/share/common-licenses', '/usr/share/doc')
    {
        next if !-d $place;
        my @here;
        File::Find::find({ no_chdir => 1, wanted => sub {
            push @here, $_ if is_text($place, $_);
        } }, "$place/");
        for my $file (sort @here) {
            last if $bytes >= $enough;
            my ($dev, $inode, $size) = (stat $file)[0, 1, 7];
            next if $taken{"$dev:$inode"}++;
            $bytes += $size * ($file =~ /\.gz\z/ ? 3 : 1);
            push @found, $file;
        }
    }
    return @found;
}

sub is_text {
    my ($place, $file) = @_;
    return 0 if !-f $file || !-r _ || -z _;
    return 1 if $place =~ m{/(?:dict|common-licenses)\z};
    return $file =~ /\.p(?:m|od)\z/ if $place !~ m{/doc\z};
    return $file =~ m{
        (?: /copyright | /README[^/]* | /changelog[^/]* | /NEWS[^/]*
          | \.(?:txt|md|rst|html) ) (?:\.gz)? \z
    }x;
}
