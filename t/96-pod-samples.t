# Every sample of the manual, the cookbook and README is tried as it stands, and
# what it is said to print is what it prints.  How a block says what it is stands
# in CBFPod.
#
# Each runs in a perl and a directory of its own.  A sample that ends badly or
# complains has failed.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Spec ();
use File::Temp ();
use Test::More;
use CBFPod;
use CBFTest;

my $SECONDS = 30;    # for one sample

my $root = File::Spec->rel2abs("$FindBin::Bin/..");
my $lib  = "$root/lib/Data/CountingBloomFilter/Shared";
my @perl = ($^X, map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC);
my $null = File::Spec->devnull;

# What it printed, what it complained, how it ended.
sub run {
    my ($dir, @command) = @_;
    my $out = File::Temp->new;
    my $err = File::Temp->new;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        chdir $dir or die "$dir: $!";
        open STDIN,  '<', $null or die "null: $!";
        open STDOUT, '>&', $out or die "out: $!";
        open STDERR, '>&', $err or die "err: $!";
        alarm limit($SECONDS);
        exec { $command[0] } @command or die "$command[0]: $!";
    }
    waitpid $pid, 0;
    my $status = $?;
    return slurp("$out"), slurp("$err"), $status;
}

sub have {
    my ($module) = @_;
    my (undef, undef, $status) = run($root, @perl, "-M$module", '-e', '1');
    return $status == 0;
}

# The text of the program that a block is; lines are reported as the page's.
sub program {
    my ($page, $block, $preamble) = @_;
    my $here = "#line $block->{line} \"$page\"\n$block->{text}";
    return "use strict; use warnings;\n"
        . ($block->{kind} eq 'program' ? $here : "$preamble\n{\n$here\n}\n");
}

# Runs all of a page; returns how many there were of each kind.
sub try_page {
    my ($file) = @_;
    my ($page) = $file =~ m{([^/]+)\z};
    my $dir    = File::Temp->newdir;
    my ($preamble, %file, %n, $printed) = ('');

    for my $block (blocks_of($file)) {
        my ($kind, $text) = @$block{qw(kind text)};
        my $name = "$page, line $block->{line}";
        $n{$kind}++;
        if ($kind eq 'preamble') {
            $preamble = $text;
        }
        elsif ($kind eq 'file') {
            $file{ $block->{name} } = $text;
        }
        elsif ($kind eq 'shell') {
            my ($out, $err, $status) =
                run($dir, 'sh', '-n', spew("$dir/sample.sh", $text));
            is("$err$status", 0, "$name: shell, as far as its syntax goes");
        }
        elsif ($kind eq 'output') {
            is($printed, $text, "$name: prints that") if defined $printed;
        }
        elsif ($kind eq 'program' || $kind eq 'short') {
            undef $printed;
            SKIP: {
                skip "$name needs $block->{name}", 1
                    if defined $block->{name} && !have($block->{name});
                my $place = File::Temp->newdir;
                spew("$place/$_", $file{$_}) for keys %file;
                my $perl = spew("$dir/sample.pl",
                    program($page, $block, $preamble));
                my ($out, $err, $status) = run($place, @perl, $perl);
                is("$err$status", 0, "$name: runs") or diag("printed: $out");
                $printed = $out;
            }
        }
    }
    return \%n;
}

my $n = try_page("$lib.pm");
is($n->{preamble}, 1, 'the manual has one preamble');
cmp_ok($n->{program}, '>=', 6, '... and programs');
cmp_ok($n->{short}, '>=', 25, '... and short samples');
cmp_ok($n->{output}, '>=', 10, '... and says what some print');

$n = try_page("$lib/Cookbook.pod");
cmp_ok($n->{program}, '>=', 12, 'the cookbook has a program for each recipe');
is($n->{output}, $n->{program}, '... and says what each prints');
ok(!$n->{short}, '... and nothing that is not whole');

$n = try_page("$root/README");
is($n->{program}, 1, 'README has a program');
is($n->{shell}, 2, '... and two commands');

done_testing;
