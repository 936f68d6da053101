package XTTree;
# What the checks in xt/ share: where the distribution is, which files it has,
# a copy of it to build in, and commands whose output is kept.
use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use ExtUtils::Manifest ();
use File::Basename qw(dirname);
use File::Copy ();
use File::Path ();
use File::Spec ();
use File::Temp ();

our @EXPORT = qw(root shipped c_sources slurp have capture copy_tree link_flags);

my $ROOT = Cwd::abs_path(File::Spec->catdir(dirname(__FILE__), '..', '..'));

sub root { return $ROOT }

# Paths in MANIFEST, below the root, that are there: META files come later.
sub shipped {
    return grep { -f "$ROOT/$_" }
        sort keys %{ ExtUtils::Manifest::maniread("$ROOT/MANIFEST") };
}

# Hand-written C, not what xsubpp makes.
sub c_sources {
    return grep { /\.[ch]\z/ } shipped();
}

sub slurp {
    my ($file) = @_;
    open my $in, '<:raw', $file or die "$file: $!";
    local $/;
    return scalar readline $in;
}

# Whether a command is on the path.
sub have {
    my ($command) = @_;
    return scalar grep { -x "$_/$command" } File::Spec->path;
}

# What a C program wants to be linked with, from "link:" comments at its top.
sub link_flags {
    my ($file) = @_;
    my @head = (split /\n/, slurp($file))[0 .. 9];
    return map { m{\A/\*\s*link:\s*(\S.*?)\s*\*/} ? split ' ', $1 : () }
        grep { defined } @head;
}

# Runs a command in a directory without standard input: what it printed on both
# outputs, and its status.
sub capture {
    my ($where, @command) = @_;
    my $out = File::Temp->new;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        chdir $where or die "$where: $!";
        open STDIN,  '<', File::Spec->devnull or die "null: $!";
        open STDOUT, '>&', $out      or die "stdout: $!";
        open STDERR, '>&', \*STDOUT or die "stderr: $!";
        exec { $command[0] } @command or die "$command[0]: $!";
    }
    waitpid $pid, 0;
    my $status = $?;
    return slurp($out->filename), $status;
}

# The distribution as it would be shipped, in a directory that goes with the
# returned object.
sub copy_tree {
    my $dir = File::Temp->newdir;
    for my $file ('MANIFEST', shipped()) {
        File::Path::make_path(dirname("$dir/$file"));
        File::Copy::copy("$ROOT/$file", "$dir/$file") or die "$file: $!";
        chmod((stat "$ROOT/$file")[2] & 07777, "$dir/$file");
    }
    return $dir;
}

1;
