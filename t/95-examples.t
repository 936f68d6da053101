# The programs in eg/ and the samples in README do what they say: each is run,
# and what it prints is compared with an exact count.
use strict;
use warnings;
use Config;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Basename qw(basename);
use File::Spec ();
use File::Temp ();
use IO::Compress::Gzip ();
use Test::More;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog(100);

my $root = File::Spec->rel2abs("$FindBin::Bin/..");
my $dir  = File::Temp->newdir;
my @perl = ($^X, map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC);

# Runs perl on a file; what it printed, what it complained, how it ended.
sub run {
    my ($file, @args) = @_;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDOUT, '>>', "$dir/out" or die "out: $!";
        open STDERR, '>>', "$dir/err" or die "err: $!";
        open STDIN, '<', File::Spec->devnull or die "null: $!";
        exec @perl, $file, @args;
        die "exec: $!";
    }
    waitpid $pid, 0;
    my $status = $?;
    my ($out, $err) = map { slurp("$dir/$_") } qw(out err);
    unlink "$dir/out", "$dir/err";
    return $out, $err, $status;
}

sub example { return run("$root/eg/$_[0]", @_[1 .. $#_]) }

# Passes when it ended well and complained of nothing; shows all if not.
sub ran_well {
    my ($name, $out, $err, $status) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return 1 if is("$err$status", 0, $name);
    diag("it printed: $out");
    return 0;
}

# Indented blocks of a text, without their indentation.
sub blocks {
    my ($text) = @_;
    my @blocks;
    for my $part (split /^(?=\S)/m, $text) {
        my @lines = grep { /\A(?:    |\z)/ } split /\n/, $part;
        push @blocks, join "\n", map { substr($_, 4) || '' }
            map { $_ eq '' ? '    ' : $_ } @lines
            if grep { length } @lines;
    }
    s/\A\n+|\n+\z//g for @blocks;
    return @blocks;
}

subtest 'the samples of README' => sub {
    my @samples = grep { /\Ause / } blocks(slurp("$root/README"));
    is(scalar @samples, 1, 'one sample in Perl');
    my ($out, @rest) = run(spew("$dir/sample.pl", "use strict; use warnings;\n"
        . "$samples[0]\n"));
    ran_well('it runs', $out, @rest);
    like($out, qr/^different visitors: \d+$/m, 'it counts');
    my ($count) = $out =~ /visitors: (\d+)/;
    cmp_ok(abs($count - 1000), '<=', 10, 'about a thousand, as it says');
    like($out, qr/^visitor-7: 1\nvisitor-x: 0$/m, 'one is in, one is not');
};

subtest 'the commands of README' => sub {
    my @commands = grep { /\Ash / } blocks(slurp("$root/README"));
    is(scalar @commands, 2, 'two commands');
    my $build = 'sh .ci/deps && perl Makefile.PL && make';
    is($commands[0], "$build && perl -Mblib eg/main-job.pl", 'the job');
    is($commands[1], "$build && make test",                  'the tests');
};

subtest 'every example is run here' => sub {
    my @known = qw(dedupe.pl main-job.pl memfd.pl nightly.pl window.pl);
    is_deeply([sort map { basename($_) } glob "$root/eg/*.pl"], \@known,
        'the list of examples');
    for my $file (grep { $_ ne 'memfd.pl' } @known) {
        my ($out, $err, $status) = example($file, 'x');
        isnt($status, 0, "$file refuses wrong arguments");
        like($err, qr/\Ausage: \Q$file\E /, 'and says what it takes');
    }
};

subtest 'main-job.pl' => sub {
    my @words = map { "word-$_" } 1 .. 3000;
    spew("$dir/plain.txt", join ' ', @words, "it's\nfine");
    spew("$dir/Doc.pod", "not text\n\n=head1 SHOWN Word-1\n\n=cut\n\nnor this\n");
    spew("$dir/open.pm", "=pod\n\nnever closed\n");
    IO::Compress::Gzip::gzip(\join("\n", @words[0 .. 999], 'zipped'),
        "$dir/more.gz") or die 'gzip';
    my @files = map { "$dir/$_" } qw(plain.txt Doc.pod open.pm more.gz);

    # 3002 and 3 (head1, shown, word-1) and 3 (pod, never, closed) and 1001
    my ($out, @rest) = example('main-job.pl', 4000, @files);
    ran_well('it runs', $out, @rest);
    like($out, qr/^input: 4 files, 4009 tokens, 3008 of them different$/m,
        'it reads text, POD and compressed text');
    like($out, qr/^first sightings: \d+, exactly: 3008, missed: \d+/m,
        'it compares');
    my ($first, $missed) = $out =~ /sightings: (\d+), .* missed: (\d+)/;
    is($first + $missed, 3008, 'and every word is one or the other');
    like($out, qr/^frozen file: \d+ bytes, 3008 of 3008 words found/m,
        'the frozen file knows them all');
    like($out, qr/^count: /m,  'count is shown');
    like($out, qr/^stats: .*counters_set=/m, 'stats are shown');
    like($out, qr/^verdict: all is well\n\z/m, 'the verdict');

    my ($less, undef, $status) = example('main-job.pl', 5000, @files);
    is($status, 1 << 8, 'too little text: exit 1');
    like($less, qr/^NOT TRUE: at least 5000 tokens/m, 'with the reason');
    like($less, qr/^verdict: 1 checks FAILED\n\z/m, 'and another verdict');
};

subtest 'dedupe.pl' => sub {
    my @files;
    for my $n (0 .. 4) {
        my @lines = map { "line " . $_ } $n * 500 .. $n * 500 + 1500;
        push @files, spew("$dir/lines-$n", join "\n", @lines, '', 'end');
    }
    my ($out, $err, $status) = example('dedupe.pl', 3, @files);
    is($status, 0, 'it runs');
    my @want = sort '', 'end', map { "line $_" } 0 .. 3500;
    is_deeply([sort split /\n/, $out], \@want, 'each line once');
    my ($count) = $err =~ /\Aabout (\d+) different lines\n\z/;
    cmp_ok(abs(($count // 0) - @want), '<=', 10, 'and their number');
};

subtest 'window.pl' => sub {
    my ($window, $times, @lines, @want, %in) = (50, 3);
    push @lines, map { ($_ * $_ * 7 + $_) % 29 } 1 .. 400;
    for my $n (0 .. $#lines) {
        $in{ $lines[$n] }++;
        $in{ $lines[$n - $window] }-- if $n >= $window;
        push @want, $n + 1 . ": $lines[$n]" if $in{ $lines[$n] } == $times;
    }
    cmp_ok(scalar @want, '>', 20, 'something to report');
    my ($out, @rest) = example('window.pl', $window, $times,
        spew("$dir/log", join "\n", @lines));
    ran_well('it runs', $out, @rest);
    my $summary = $out =~ s/^(in the window: .*)\n\z//m ? $1 : '';
    is($out, join('', map { "$_\n" } @want), 'what an exact count reports');
    my $different = grep { $_ } values %in;
    like($summary, qr/: 50 lines, about \d+ different, 0 counters stuck/,
        'nothing was lost and nothing left behind');
    my ($count) = $summary =~ /about (\d+)/;
    cmp_ok(abs($count - $different), '<=', 3, 'how many are different');
};

subtest 'memfd.pl' => sub {
    my %ways = (proc => '/proc', '' => '/proc');
    $ways{''} = 'SCM_RIGHTS'
        if $Config{archname} =~ /\A(?:x86_64|aarch64)-/;
    for my $way (sort keys %ways) {
        my ($out, @rest) = example('memfd.pl', grep { length } $way);
        ran_well("it runs by $ways{$way}", $out, @rest);
        is($out, "consumer: 600 jobs done, by $ways{$way}\n"
            . "producer: 400 of 1000 jobs left\n", 'one table, two processes');
    }
};

subtest 'nightly.pl' => sub {
    my @nights = (
        spew("$dir/night-1", "good\nbad.example\nugly\n"),
        spew("$dir/night-2", "good\nugly\n"),
        spew("$dir/night-3", "bad.example\n"),
    );
    my ($out, @rest) =
        example('nightly.pl', "$dir/served.cbf", 'bad.example', @nights);
    ran_well('it runs', $out, @rest);
    is_deeply([grep { /\Anight/ } split /\n/, $out], [
        'night 1: bad.example is listed',
        'night 2: bad.example is not listed, by the new list',
        'night 3: bad.example is listed, by the new list',
    ], 'the reader follows');
    is_deeply([map { basename($_) } glob "$dir/served*"], ['served.cbf'],
        'only the served file is left');
    my $f = $CLASS->new_readonly("$dir/served.cbf");
    is($f->contains('bad.example'), 1, 'and it can be opened');
};

done_testing;
