# The Perl tests under valgrind's memcheck: no read or write outside of what was
# allocated, no decision on what was never set, in the parent and in every
# process it forks.  Needs the built module: prove -b xt/.
#
# Chosen are the tests of the glue: objects, arguments, items and the code they
# run, batches, images, threads.  What the core does with files, locks and whole
# tables is what the C tests show to faster sanitizers (sanitize.t).
# CBF_VALGRIND=REGEX chooses others.
use strict;
use warnings;
use File::Basename qw(basename);
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'needs valgrind' if !have('valgrind');

my $chosen = $ENV{CBF_VALGRIND}
    || qr{\A(?:00|1[457-9]|2|41|53|8[0-35]|92-magic|93)};
my @tests = grep { basename($_) =~ $chosen } glob root() . '/t/*.t';
cmp_ok(scalar @tests, '>', $ENV{CBF_VALGRIND} ? 0 : 15,
    'there are tests to run');

# A command for prove that gives each test a report of its own.
my $dir  = File::Temp->newdir;
my $supp = root() . '/xt/valgrind.supp';
open my $out, '>', "$dir/memcheck" or die "memcheck: $!";
print $out <<"EOS";
exec valgrind --quiet --vgdb=no --leak-check=no '--suppressions=$supp' \\
    --log-file="$dir/\$(basename "\$1").%p" '$^X' -Mblib "\$1"
EOS
close $out or die "memcheck: $!";

local $ENV{CBF_TEST_SLOW}  = 40;
local $ENV{PERL_HASH_SEED} = 0;
my ($said, $status) = capture(root(), 'prove', '-j2', '--timer',
    '-e', "sh $dir/memcheck", @tests);
is($status, 0, 'they pass') or diag($said);
note($said);

for my $test (map { basename($_) } @tests) {
    my @logs = glob "\Q$dir\E/$test.*";
    ok(scalar @logs, "$test was run by valgrind");

    # Lines between dashes are about valgrind itself: system calls it is too
    # old to know.
    my @reports = grep { /^==/m } map { slurp($_) } @logs;
    ok(!@reports, "$test: nothing found")
        or diag(substr join("\n", @reports), 0, 4000);
}
done_testing;
