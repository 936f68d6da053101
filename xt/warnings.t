# No warnings: the core and the C tests under -Wall -Wextra, the glue under
# -Wall, with gcc and with clang.  Users never compile with -Werror.
use strict;
use warnings;
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use CoreBuild qw(program_markers);
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

# The core as shipped and as built for the kill points; programs as they are
# built for the tests.
sub core {
    my ($cc) = @_;
    my $object = File::Temp->new(SUFFIX => '.o');
    for my $file (@SOURCES) {
        my @builds = $file =~ m{\Axs/} ? ([], ['-DCBF_TESTING'])
            : program_markers(root() . "/$file");
        for my $extra (map { ['-O2', @$_] } @builds) {
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
