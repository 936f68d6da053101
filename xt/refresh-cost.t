# What a refresh that finds nothing costs, seen from the kernel: one system call,
# the look at the path.  Needs strace and the built module: prove -b xt/.
use strict;
use warnings;
use File::Spec ();
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

plan skip_all => 'needs strace (Debian: strace)' if !have('strace');

my $dir  = File::Temp->newdir;
my ($said, $status) = capture("$dir", qw(strace -o trace true));
plan skip_all => "strace may not trace here: $said" if $status;

# Between two writes that say so, a hundred calls and nothing else.
my $ROUNDS = 100;
my $program = "$dir/program.pl";
open my $out, '>', $program or die "$program: $!";
print {$out} <<'END' or die "$program: $!";
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
my ($rounds) = @ARGV;
my $class = 'Data::CountingBloomFilter::Shared';
my $other = $class->new(undef, 1000);
$other->save('served.cbf');
my $reader = $class->new_readonly('served.cbf');
open my $mark, '>', '/dev/null' or die $!;
sub between {
    my ($name, $f) = @_;
    $f->refresh;
    syswrite $mark, "begin $name";
    $f->refresh for 1 .. $rounds;
    syswrite $mark, "end $name";
}
between('nothing new', $reader);
between('of no file', $other);
unlink 'served.cbf' or die $!;
between('file missing', $reader);
END
close $out or die "$program: $!";

my @perl = ($^X, map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC);
($said, $status) = capture("$dir", qw(strace -o trace), @perl, $program, $ROUNDS);
is("$said$status", 0, 'the program ran') or BAIL_OUT('nothing to look at');

my $trace = slurp("$dir/trace");
my $look  = qr/^(?:lstat|newfstatat|statx|fstatat64)\(.*"served\.cbf"/;
for my $case (['nothing new', $ROUNDS, qr/\) = 0\z/],
    ['file missing', $ROUNDS, qr/ENOENT/], ['of no file', 0, qr/./]) {
    my ($name, $calls, $result) = @$case;
    my ($between) = $trace =~ /"begin $name".*?\n(.*?)^write\(.*"end $name"/ms;
    ok(defined $between, "$name: traced") or next;
    my @lines = split /\n/, $between;
    is(scalar @lines, $calls, "... $calls system calls for $ROUNDS refreshes")
        or diag($between);
    is(scalar(grep { /$look/ && /$result/ } @lines), $calls,
        '... each of them the look at the path');
}
done_testing;
