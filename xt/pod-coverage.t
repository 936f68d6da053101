# Every method is in the manual.  Needs the built module: prove -b xt/.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all =>
    'needs Test::Pod::Coverage (Debian: libtest-pod-coverage-perl)'
    if !eval { require Test::Pod::Coverage; 1 };

my $class = 'Data::CountingBloomFilter::Shared';
require_ok($class);

# Modules with code of their own; pages without code have nothing to cover.
my @modules = map { s{\Alib/}{}r =~ s{/}{::}gr =~ s{\.pm\z}{}r }
    grep { /\Alib\/.*\.pm\z/ && slurp(root() . "/$_") =~ /^package /m }
    shipped();

# Names in capitals are for perl and for serializers to call, not for users.
Test::Pod::Coverage::pod_coverage_ok($_, { also_private => [qr/\A[A-Z_]+\z/] })
    for @modules;
done_testing;
