# A pool of processes against one file, checked all the time: see soak.pl.
# CBF_SOAK_SECONDS=n: how long (60).
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

my $seconds = $ENV{CBF_SOAK_SECONDS} || 60;
my ($said, $status) = capture(root(), $^X, map({ "-I$_" } @INC),
    "$FindBin::Bin/soak.pl", $seconds);
is($status, 0, "$seconds s without a fault") or diag($said);
note($_) for split /\n/, $said =~ s/^# //gmr;
like($said, qr/ faults=0 /, 'it came to its end');
my ($kills) = $said =~ / kills=(\d+)/;
cmp_ok($kills || 0, '>=', int($seconds / 4), 'with kills');
done_testing;
