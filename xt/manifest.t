# MANIFEST names what is there, all of it, and says what each file is.
use strict;
use warnings;
use Cwd ();
use ExtUtils::Manifest ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

$ExtUtils::Manifest::Quiet = 1;
chdir root() or die 'root: ' . $!;

# META files are made for the archive only.
my @missing = grep { !/\AMETA\./ } ExtUtils::Manifest::manicheck();
is("@missing", '', 'every file in MANIFEST is there');

# Files whose names begin with a dot belong to the repository; what is shipped
# of them is named in MANIFEST, the rest need not be.
SKIP: {
    skip 'not in a repository', 1 if !-f 'MANIFEST.SKIP';
    my @extra = grep { !/\A\./ } ExtUtils::Manifest::filecheck();
    is("@extra", '', 'every file that is there is named in one of the lists');
}

my $manifest = ExtUtils::Manifest::maniread();
my @bare = grep { !length $manifest->{$_} && !/\AMETA\./ } sort keys %$manifest;
is("@bare", '', 'every line has a few words on what the file is');

my @lines = grep { /\S/ && !/\A#/ } split /\n/, slurp('MANIFEST');
is(scalar @lines, scalar keys %$manifest, 'no file is named twice');

# The commands of README need these, also from the archive.
ok($manifest->{$_}, "$_ is shipped") for qw(.ci/deps eg/main-job.pl README);

done_testing;
