# One batch call must do exactly what the same calls one by one would do, also with
# repeats inside the batch, and wrong arguments must be refused without leaving a lock behind.
use strict;
use warnings;
use Test::More;
use Time::HiRes ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $f = $CLASS->new(undef, 10_000, 1e-6);
is($f->add_many([qw(a a b a)]), 2, 'repeats inside one batch are new only once');
is($f->count_of('a'), 3, '... but every one is counted');
is($f->count_of('b'), 1, '... for each item');
is($f->add_many([qw(a c)]), 1, 'an item from an earlier batch is not new');
is($f->add_many([]), 0, 'an empty batch adds nothing');
is($f->add_many(['', "\0", 0]), 3, 'false values are items too');

my $ops = $f->stats->{ops};
$f->add_many([map { "o$_" } 1 .. 50]);
is($f->stats->{ops}, $ops + 1, 'a batch is one write-path call in the ops counter');
$f->add_many([]);
is($f->stats->{ops}, $ops + 2, '... an empty one too, as it changes nothing but is a call');

# against the same list one by one, in a filter small enough that false positives happen
srand 4711;
for my $round (1 .. 20) {
    my ($one, $all) = map { $CLASS->new(undef, 25, 0.05) } 1 .. 2;
    my @list = map { 'i' . int rand 60 } 1 .. 120;
    my $sum = 0;
    $sum += $one->add($_) for @list;
    my $got = $all->add_many(\@list);
    my @x = map { $one->count_of($_) } map { "i$_" } 0 .. 200;
    my @y = map { $all->count_of($_) } map { "i$_" } 0 .. 200;
    if ($got != $sum || "@x" ne "@y") { fail("round $round: batch and single adds disagree ($got against $sum)"); last }
    pass('batch and single adds agree') if $round == 20;
}

my $big = $CLASS->new(undef, 300_000, 0.001);
my $t0 = Time::HiRes::time();
is($big->add_many([1 .. 300_000]) > 299_000, 1, 'a batch of 300000 is accepted');
cmp_ok(Time::HiRes::time() - $t0, '<', 5, '... in reasonable time');

{
    package Local::Hash;
    sub new { bless {}, shift }
}
my %bad = (
    'undef' => [undef], 'a string' => ['abc'], 'a number' => [42], 'a hash reference' => [{ a => 1 }],
    'a code reference' => [sub { 1 }], 'a scalar reference' => [\'x'], 'an object built on a hash' => [Local::Hash->new],
    'no argument' => [], 'a glob reference' => [\*STDOUT],
);
my $shared = $CLASS->new(undef, 1000);
$shared->add('before');
for my $what (sort keys %bad) {
    no warnings;
    must_croak(sub { $shared->add_many(@{ $bad{$what} }); 'accepted' }, "add_many refuses $what");
}
must_work(sub { $shared->add('after'); $shared->contains('before') or die; 1 }, 'the filter can still be written afterwards');
is($shared->contains('after'), 1, '... and this process sees it');

done_testing;
