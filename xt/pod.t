# The manual is well-formed.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'needs Test::Pod (Debian: libtest-pod-perl)'
    if !eval { require Test::Pod; Test::Pod->VERSION(1.40); 1 };

my @files = grep { m{\A(?:lib|bin)/} } shipped();
ok(scalar @files, 'there are files to check');
Test::Pod::pod_file_ok(root() . "/$_", $_) for @files;
done_testing;
