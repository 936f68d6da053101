# Descriptors, address space and memory that run out, each allocation and each
# system call failing in turn, 1,100 processes at once, 10,000 opens
# (core/limits.c).
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use CoreBuild qw(build_program core_compiler core_file program_markers
    run_program);
use XTTree;

plan skip_all => 'no C compiler found' if !core_compiler();

my $source  = core_file('xt', 'core', 'limits.c');
my ($flags) = program_markers($source);
my ($program, $output) = build_program(source => $source, flags => $flags,
    libs => [link_flags($source)]);
is($output, '', 'it builds, without a warning');
subtest 'limits' => sub {
    run_program($program, seconds => 240);
    done_testing;
} if $program;
done_testing;
