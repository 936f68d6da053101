# The built object shows one symbol to the outside and has no trace of the kill
# points of the tests.  Needs the built module: prove -b xt/.
use strict;
use warnings;
use File::Find ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'needs nm (Debian: binutils)' if !have('nm');

my @objects;
File::Find::find({ no_chdir => 1, wanted => sub {
    push @objects, $_ if m{/Shared\.so\z};
} }, grep { -d } root() . '/blib/arch');
is(scalar @objects, 1, 'one object was built');
my $object = $objects[0] or BAIL_OUT('nothing is built');

my ($names, $status) = capture(root(), 'nm', '-D', '--defined-only', $object);
is($status, 0, 'nm reads it');
my %linker = map { $_ => 1 } qw(_init _fini _edata _end __bss_start);
my @exported = grep { !$linker{$_} } map { (split)[-1] } split /\n/, $names;
is("@exported", 'boot_Data__CountingBloomFilter__Shared',
    'only what loads it is exported');

# The names are in the sources, so that they can be looked for.
my %point;
for my $file (grep { m{\Axs/} } c_sources()) {
    $point{$_} = 1
        for slurp(root() . "/$file") =~ /CBF_KILL_POINT\("([^"]+)"\)/g;
}
cmp_ok(scalar keys %point, '>', 3, 'the sources have kill points');
my $bytes = slurp($object);
my @traces = grep { index($bytes, $_) >= 0 } 'cbf_test_kill_point',
    sort keys %point;
is("@traces", '', 'none of them is in the object');

done_testing;
