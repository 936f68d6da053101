# The C tests, built with sanitizers: AddressSanitizer and
# UndefinedBehaviorSanitizer by gcc and by clang; ThreadSanitizer by clang, with
# a program of its own that hammers one filter with threads.
use strict;
use warnings;
use File::Basename qw(basename);
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use CoreBuild qw(build_program core_file core_programs program_markers
    run_program);
use XTTree;

my $MEMORY  = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all',
    '-fno-omit-frame-pointer', '-O1'];
my $THREADS = ['-fsanitize=thread', '-fno-omit-frame-pointer', '-O1'];
my %ENV_OF  = (
    ASAN_OPTIONS  => 'detect_leaks=1:abort_on_error=0:exitcode=99'
        . ':detect_stack_use_after_return=1',
    UBSAN_OPTIONS => 'print_stacktrace=1:halt_on_error=1:exitcode=99',
    TSAN_OPTIONS  => 'halt_on_error=1:exitcode=99',
);

my @tests = core_programs('t/core');
cmp_ok(scalar @tests, '>=', 5, 'there are C tests');

for my $cc (qw(gcc clang)) {
    SKIP: {
        skip "$cc is not installed", 1 if !have($cc);
        subtest "$cc, address and undefined behaviour" =>
            sub { run_all($cc, $MEMORY, @tests) };
    }
}
SKIP: {
    skip 'clang is not installed', 1 if !have('clang');
    subtest 'clang, threads' =>
        sub { run_all('clang', $THREADS, core_file('xt', 'core', 'threads.c'), @tests) };
}
done_testing;

sub run_all {
    my ($cc, $flags, @sources) = @_;
    for my $source (@sources) {
        for my $variant (program_markers($source)) {
            subtest join(' ', basename($source), @$variant) => sub {
                my ($program, $output) = build_program(cc => $cc,
                    source => $source, flags => [@$flags, @$variant]);
                ok(defined $program, 'it builds') or return diag($output);
                subtest 'it runs' => sub {
                    run_program($program, seconds => 300, env => \%ENV_OF);
                };
            };
        }
    }
    return;
}
