# README's two commands are what .ci/run runs, and the scripts are sound.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'not in a repository' if !-f root() . '/.ci/run';

my @commands = slurp(root() . '/README') =~ /^    (sh \.ci\/deps .*)$/mg;
is(scalar @commands, 2, 'README has two commands');
my ($shown, $status) = capture(root(), 'bash', '.ci/run', '--show-commands');
is($status, 0, '.ci/run says what it runs');
is($shown, join('', map { "$_\n" } @commands), 'and it is the same');

my %shell = ('.ci/run' => 'bash', '.ci/deps' => 'dash');
for my $file (sort keys %shell) {
    ok(-x root() . "/$file", "$file can be executed");
    (my $out, $status) = capture(root(), $shell{$file}, '-n', $file);
    ok($status == 0 && $out eq '', "$shell{$file} can read $file")
        or diag($out);
    SKIP: {
        skip 'shellcheck is not installed', 1 if !have('shellcheck');
        ($out, $status) = capture(root(), 'shellcheck', '-S', 'warning',
            $file);
        is($out, '', "shellcheck finds nothing in $file");
    }
}
done_testing;
