# A file that is too short, too long or something else altogether must be refused
# with an error (never a SIGBUS later) and must be left exactly as it was.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;

my $good = "$dir/good.cbf";
{
    my $f = $CLASS->new($good, 2000, 0.01);
    $f->add_many([map { "item-$_" } 1 .. 500]);
    $f->sync;
}
my $bytes = slurp($good);
my $full  = length $bytes;
cmp_ok($full, '>', 1000, 'a sample file was made');

my $use = sub {
    my ($path) = @_;
    my $f = $CLASS->new($path, 2000, 0.01);
    my $hits = grep { $f->contains("item-$_") } 1 .. 500;
    $f->stats;
    "opened, $hits found";
};

# a copy that stopped half way, or was cut by another program
for my $len (1, 2, 7, 8, 15, 16, 63, 64, 65, 100, 127, 128, 256, 1000, 4095, 4096, 4097, int($full / 2), $full - 4096, $full - 8, $full - 1) {
    next if $len <= 0 || $len >= $full;
    my $p = "$dir/cut-$len";
    spew($p, substr $bytes, 0, $len);
    chmod 0640, $p;
    must_croak(sub { $use->($p) }, "a file cut to $len of $full bytes is refused");
    ok(slurp($p) eq substr($bytes, 0, $len), "... and not touched ($len)");
    is(sprintf('%o', (stat $p)[2] & 07777), '640', "... nor its permissions ($len)");
}

# other people's files
my %foreign = (
    'text'           => "hello\n",
    'a script'       => "#!/bin/sh\necho not a filter\n" x 200,
    'random bytes'   => do { srand 7; join '', map { chr int rand 256 } 1 .. 70_000 },
    'all 0xff'       => "\xff" x $full,
    'same size text' => substr("The quick brown fox. " x $full, 0, $full),
    'one byte'       => 'x',
);
for my $what (sort keys %foreign) {
    (my $name = $what) =~ tr/ /_/;
    my $p = "$dir/$name";
    spew($p, $foreign{$what});
    chmod 0644, $p;
    must_croak(sub { $use->($p) }, "foreign file ($what) is refused");
    ok(slurp($p) eq $foreign{$what}, "foreign file ($what) keeps its content");
    is(sprintf('%o', (stat $p)[2] & 07777), '644', "foreign file ($what) keeps its permissions");
}

# something appended: an error or the right answers, never a crash
my $long = "$dir/long";
spew($long, $bytes . ('Z' x 5000));
my $r = must_survive(sub { $use->($long) }, 'a file with bytes appended does not crash');
ok(!$r->{ok} || $r->{out} eq 'opened, 500 found', '... and is refused or answers right') or diag $r->{out};

# and the good one is still good
is(eval { $use->($good) }, 'opened, 500 found', 'the untouched file opens as before');

done_testing;
