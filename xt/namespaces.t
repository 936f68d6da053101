# Who is dead: PID namespaces that share a filter, pids reused, hidepid, other
# uids, user namespaces, no /proc, reboots (core/namespaces.c).  Needs root and a
# kernel that lets it make namespaces; says so where it skips.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use CoreBuild qw(build_program core_compiler core_file program_markers
    run_program);

plan skip_all => 'no C compiler found' if !core_compiler();
plan skip_all => 'namespaces, mounts and other uids need root' if $>;

my $source  = core_file('xt', 'core', 'namespaces.c');
my ($flags) = program_markers($source);
my ($program, $output) = build_program(source => $source, flags => $flags);
is($output, '', 'it builds, without a warning');
subtest 'namespaces' => sub {
    run_program($program, seconds => 300);
    done_testing;
} if $program;
done_testing;
