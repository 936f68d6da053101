# The C tests of the core, built and run, each as a subtest.  What they check
# stands in t/core/*.c; how they are built in t/lib/CoreBuild.pm.
use strict;
use warnings;

use File::Basename qw(basename dirname);
use Test::More;

use lib dirname(__FILE__) . '/lib';
use CoreBuild qw(build_program core_compiler core_file core_programs
    program_markers run_program);

plan skip_all => 'no C compiler found' if !core_compiler();

my @programs = core_programs('t/core');

ok(scalar @programs, 'there are C tests');

for my $source (@programs) {
    for my $flags (program_markers($source)) {
        my $name = join ' ', basename($source), @$flags;

        subtest $name => sub {
            my ($program, $output) =
                build_program(source => $source, flags => $flags);

            ok(defined $program, 'it builds');
            diag($output) if length $output;
            run_program($program, seconds => 300) if defined $program;
            done_testing();
        };
    }
}

# Leaves of the core know nothing of one another: each links with its tests
# alone.
my %leaf_of = (map({ $_ => $_ } qw(counter error geometry hash owner)),
    counter_table => 'counter');

for my $name (sort keys %leaf_of) {
    my ($program, $output) = build_program(
        source => core_file('t', 'core', "$name.c"),
        core => [$leaf_of{$name}]);

    ok(defined $program, "$name.c needs $leaf_of{$name} alone")
        or diag($output);
}

done_testing();
