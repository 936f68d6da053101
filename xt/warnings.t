# No warnings: the core and the C tests under -Wall -Wextra, the glue under
# -Wall, with gcc and with clang.  Users never compile with -Werror.
use strict;
use warnings;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

my @FLAGS = qw(-std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Werror -Ixs/core -It/core);
my @SOURCES = grep { /\.c\z/ } c_sources();
cmp_ok(scalar @SOURCES, '>', 8, 'there are sources');

for my $cc (qw(gcc clang)) {
    SKIP: {
        skip "$cc is not installed", 2 if !have($cc);
        subtest "$cc: core and C tests" => sub { core($cc) };
        subtest "$cc: glue"             => sub { glue($cc) };
    }
}
done_testing;

# Each as shipped and as built for the kill points; xs/core alone is shipped.
sub core {
    my ($cc) = @_;
    my $object = File::Temp->new(SUFFIX => '.o');
    for my $file (@SOURCES) {
        for my $extra (['-O2'], ['-O2', '-DCBF_TESTING']) {
            my ($out, $status) = capture(root(), $cc, @FLAGS, @$extra, '-c',
                '-o', $object->filename, $file);
            ok($status == 0 && $out eq '', "$file @$extra") or diag($out);
        }
    }
    return;
}

sub glue {
    my ($cc) = @_;
    my $tree = copy_tree();
    my ($out, $status) = capture($tree, $^X, 'Makefile.PL', "CC=$cc",
        "LD=$cc", 'OPTIMIZE=-O2 -Wall -Werror');
    is($status, 0, 'perl Makefile.PL') or diag($out);
    ($out, $status) = capture($tree, 'make');
    is($status, 0, 'make') or diag($out);
    unlike($out, qr/warning:/i, 'no warning');
    return;
}
