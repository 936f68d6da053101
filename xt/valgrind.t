# The Perl tests under valgrind's memcheck: no read or write outside of what was
# allocated, no decision on what was never set, in the parent and in every
# process it forks.  Needs the built module: prove -b xt/.
#
# Left out are tests that start other programs, measure memory, or whose point
# is time: storms of kills, many processes, huge sparse mappings, arithmetic in
# Perl.  CBF_VALGRIND=REGEX chooses by name instead.
use strict;
use warnings;
use File::Basename qw(basename);
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'needs valgrind' if !have('valgrind');

my $LEFT_OUT = qr{\A(?:
      05-core | 1[0-2] | 34-file-sizes | 5[146] | 6 | 74-scribble
    | 84-taint | 86-leaks | 87-many-opens | 95-examples
)}x;

my $chosen = $ENV{CBF_VALGRIND};
my @tests  = grep {
    my $name = basename($_);
    defined $chosen ? $name =~ $chosen : $name !~ $LEFT_OUT
} glob root() . '/t/*.t';
cmp_ok(scalar @tests, '>', defined $chosen ? 0 : 20, 'there are tests to run');

# A command for prove that gives each test a report of its own.
my $dir  = File::Temp->newdir;
my $supp = root() . '/xt/valgrind.supp';
open my $out, '>', "$dir/memcheck" or die "memcheck: $!";
print $out <<"EOS";
exec valgrind --quiet --leak-check=no '--suppressions=$supp' \\
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
    my @reports = grep { length } map { slurp($_) } @logs;
    ok(!@reports, "$test: nothing found")
        or diag(substr join("\n", @reports), 0, 4000);
}
done_testing;
