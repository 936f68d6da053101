# Thousands of processes killed at random instants (core/storm.c and
# core/storm_table.c), and at every pair of named points (t/core/kill.c with
# CBF_KILL_ALL).
#
# CBF_STORM_PERCENT=n: how many rounds, as a percentage; CBF_STORM_SEED=n, which
# each run prints: the same random numbers again.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use CoreBuild qw(build_program core_compiler core_file program_markers
    run_program);

plan skip_all => 'no C compiler found' if !core_compiler();

my $percent = $ENV{CBF_STORM_PERCENT} || 100;
my @program = (
    [xt => 'storm.c'],
    [xt => 'storm_table.c'],
    [t  => 'kill.c', CBF_KILL_ALL => 1],
);
for my $p (@program) {
    my ($where, $name, %env) = @$p;
    subtest $name => sub {
        my $source  = core_file($where, 'core', $name);
        my ($flags) = program_markers($source);
        my ($program, $output) =
            build_program(source => $source, flags => $flags);
        is($output, '', 'it builds, without a warning');
        run_program($program, seconds => 240 * ($percent > 100
            ? $percent / 100 : 1), env => \%env) if $program;
        done_testing;
    };
}
done_testing;
