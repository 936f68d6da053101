# make install: the module, the command and its completion for bash are where
# they belong, in a staging directory and in a place of the user's own.
use strict;
use warnings;
use Config;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Find ();
use File::Temp ();
use POSIX ();
use Test::More;
use XTTree;

my $tree = copy_tree();
my $COMPLETION = 'share/bash-completion/completions/cbf';
my $MODULE     = 'Data/CountingBloomFilter/Shared.pm';

sub runs {
    my ($name, @command) = @_;
    my ($said, $status) = capture("$tree", @command);
    return is($status, 0, $name) || diag($said);
}

# The same without root's rights, where they are ours.
sub runs_as_user {
    my ($name, @command) = @_;
    return runs($name, @command) if $>;
    return runs($name, $^X, '-MPOSIX', '-e',
        '$) = "65534 65534"; $( = 65534; setuid(65534) or die "setuid: $!";'
        . ' exec { $ARGV[0] } @ARGV or die $!', @command);
}

sub files_in {
    my ($dir) = @_;
    my @files;
    File::Find::find({ no_chdir => 1, wanted => sub {
        push @files, substr $_, length $dir if -f;
    } }, $dir);
    return sort @files;
}

# What is installed below a directory, for a program in this one.
sub installed_ok {
    my ($root, $scripts, $name) = @_;
    my @files = files_in($root);
    my $prefix = $scripts =~ s{/[^/]*\z}{}r;
    my ($module) = grep { m{/\Q$MODULE\E\z} } @files;
    ok($module, "$name: the module") or diag("@files");
    ok(-x "$root$scripts/cbf", "$name: the command") or diag("@files");
    is(eval { slurp("$root$prefix/$COMPLETION") },
        slurp("$tree/eg/cbf-completion.bash"), "$name: its completion");
    for my $list (grep { /\.packlist\z/ } @files) {
        like(slurp("$root$list"), qr{\Q$COMPLETION\E$}m,
            "$name: the list of what was installed knows it");
    }
    my @odd = grep { !m{^(?:.*/)?(?:bin|lib\w*|man|perl\w*|share)/}
        || m{/blib/|/eg/} } @files;
    is("@odd", '', "$name: nothing else");
    return $module;
}

runs('Makefile.PL', $^X, 'Makefile.PL');
runs('make', 'make');
for my $case (['site', 'installsitescript'], ['vendor', 'installvendorscript'],
    ['perl', 'installscript'])
{
    my ($kind, $key) = @$case;
    SKIP: {
        my $scripts = $Config{$key} or skip "this perl has no $key", 1;
        my $staging = File::Temp->newdir;
        runs("make install, $kind", 'make', 'install', "DESTDIR=$staging",
            "INSTALLDIRS=$kind");
        installed_ok("$staging", $scripts, $kind);
    }
}

# Everybody can install into a directory of their own, and use it from there.
my $home = File::Temp->newdir;
my $base = "$home/base";
mkdir $base or die "$base: $!";
if (!$>) {
    chmod 0755, $home, $tree or die "chmod: $!";
    my @all;
    File::Find::find({ no_chdir => 1, wanted => sub { push @all, $_ } },
        "$tree", $base);
    chown 65534, 65534, @all;
}
runs_as_user('Makefile.PL', $^X, 'Makefile.PL', "INSTALL_BASE=$base");
runs_as_user('make', 'make');
runs_as_user('make install, INSTALL_BASE', 'make', 'install');
ok(installed_ok($base, '/bin', 'INSTALL_BASE'), 'INSTALL_BASE: is complete');
{
    local $ENV{PERL5LIB} = "$base/lib/perl5";
    runs_as_user('INSTALL_BASE: the command runs', "$base/bin/cbf", 'size',
        '--capacity', '9');
}
SKIP: {
    skip 'bash is not installed', 1 if !have('bash');
    runs_as_user('INSTALL_BASE: bash can read the completion', 'bash',
        '--norc', '-c', 'source "$1" && complete -p cbf', 'bash',
        "$base/$COMPLETION");
}
runs_as_user('make clean', 'make', 'clean');
ok(!-e "$tree/blib", 'nothing is left in the tree');
done_testing;
