# Any bytes in a filter's file, at rest and while it is open (core/fuzz.c):
# libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer where there is
# clang, and everywhere the inputs kept in corpus/ with others made from them.
#
# CBF_FUZZ_SECONDS=n: how long (60); 600 and more before a release.
# CBF_FUZZ_KEEP=1: afterwards, the inputs that reach something go to corpus/.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use File::Temp ();
use CoreBuild qw(build_program core_compiler core_file program_markers
    run_program);
use XTTree;

plan skip_all => 'no C compiler found' if !core_compiler();

my $SECONDS = defined $ENV{CBF_FUZZ_SECONDS} ? $ENV{CBF_FUZZ_SECONDS} : 60;
my $CHECKED = ['-fsanitize=address,undefined',
    qw(-fno-sanitize-recover=all -fno-omit-frame-pointer -O1)];
my $source  = core_file('xt', 'core', 'fuzz.c');
my $corpus  = core_file('xt', 'corpus', 'fuzz.hex');
my ($flags) = program_markers($source);
my $libs    = [link_flags($source)];
my $made    = $SECONDS * 50;
my $ran     = 0;

subtest 'the inputs kept, and others made from them' => sub {
    my ($program, $output) = build_program(source => $source, libs => $libs,
        flags => [@$CHECKED, @$flags, '-DFUZZ_REPLAY']);
    if (!$program && $output =~ /sanitize|cannot find -l/) {
        diag('without sanitizers: they are not installed');
        ($program, $output) = build_program(source => $source,
            libs => $libs, flags => [@$flags, '-DFUZZ_REPLAY']);
    }
    is($output, '', 'it builds, without a warning');
    run_program($program, seconds => 300 + 4 * $SECONDS, env => {
        CBF_FUZZ_INPUTS => $corpus,
        CBF_FUZZ_MADE   => $made,
        ASAN_OPTIONS    => 'detect_leaks=1:exitcode=99',
        UBSAN_OPTIONS   => 'print_stacktrace=1:halt_on_error=1:exitcode=99',
    }) if $program;
    $ran += $made;
    done_testing;
};

SKIP: {
    skip 'clang is not installed: no libFuzzer', 1 if !have('clang');
    my ($program, $output) = build_program(source => $source, cc => 'clang',
        libs => $libs, flags => ['-fsanitize=fuzzer', @$CHECKED, @$flags]);
    skip "clang has no libFuzzer here: $output", 1
        if !$program && $output =~ /fuzzer/;
    is($output, '', 'the fuzzer builds, without a warning');
    fuzz($program) if $program;
}
note("figures: inputs=$ran");
done_testing;

sub unpacked {
    my $dir = File::Temp->newdir;
    my $n = 0;
    for my $line (grep { /\A[0-9a-f]+\z/ } split /\n/, slurp($corpus)) {
        open my $out, '>:raw', "$dir/kept-" . $n++ or die $!;
        print {$out} pack 'H*', $line;
        close $out or die $!;
    }
    return $dir;
}

sub fuzz {
    my ($program) = @_;
    my $dir = unpacked();
    my $bad = File::Temp->newdir;
    # The sanitizer's own shared mappings are not the filter's.
    my ($said, $status) = capture($bad, $program,
        "-max_total_time=$SECONDS", qw(-timeout=20 -max_len=400
        -print_final_stats=1 -rss_limit_mb=4096), "$dir");
    my ($runs) = $said =~ /number_of_executed_units:\s*(\d+)/;
    is($status, 0, "libFuzzer, $SECONDS s: nothing found")
        or diag($said =~ /(.{1,6000})\z/s, map { hex_of($_) } glob "$bad/*");
    cmp_ok($runs || 0, '>', 10 * $SECONDS, 'it tried ' . ($runs || 0));
    $ran += $runs || 0;
    keep($program, $dir) if $ENV{CBF_FUZZ_KEEP} && !$status;
    return;
}

sub hex_of {
    my ($file) = @_;
    return "\n$file: " . unpack 'H*', slurp($file);
}

# As few as reach what all of them do, short ones first.
sub keep {
    my ($program, $dir) = @_;
    my $few = File::Temp->newdir;
    capture("$few", $program, '-merge=1', '-max_len=400', "$few", "$dir");
    my @input = sort { length $a <=> length $b || $a cmp $b }
        map { unpack 'H*', slurp($_) } glob "$few/*";
    open my $out, '>', $corpus or die "$corpus: $!";
    print {$out} "# Inputs of core/fuzz.c, in hexadecimal, one a line; made by",
        " fuzz.t.\n", map { "$_\n" } @input;
    close $out or die "$corpus: $!";
    note(scalar @input . ' inputs kept');
    return;
}
