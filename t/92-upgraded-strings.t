# How perl happens to store a string (UTF-8 flag on or off) must not matter; only
# code points above 255 are refused, and the caller's variable is not changed.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $f = $CLASS->new(undef, 10_000, 1e-6);
my $wide = qr/Wide character/i;

for my $text ("caf\xe9", "\xff\x80\xa0", "plain", "", "\0\xe9\0", "\xc3\xa9", join('', map chr, 0 .. 255), "\xe9" x 5000) {
    my $down = $text;
    my $up   = $text;
    utf8::downgrade($down);
    utf8::upgrade($up);
    my $label = length $text > 12 ? length($text) . ' characters' : join ' ', map { sprintf '%02x', ord } split //, $text;
    $f->clear;

    is($f->add($down), 1, "$label: added as bytes");
    is($f->contains($up), 1, '... found when upgraded');
    is($f->add($up), 0, '... adding it upgraded is adding the same item');
    is($f->count_of($down) . $f->count_of($up), '22', '... counted twice either way');
    is($f->add_many([$up, $down, $up]), 0, '... in a batch too');
    is($f->count_of($up), 5, '... five by now');
    is($f->remove($up), 1, '... removed by its upgraded form');
    is($f->count_of($down), 4, '... one less');
    ok($up eq $text && $down eq $text, '... and both arguments keep their value');
}

# read-only and temporary upgraded strings
my $chopped = "\xe9\x{263a}";
chop $chopped;
$f->clear;
$f->add("\xe9");
is($f->contains($chopped), 1, 'a string that once was wide is its bytes again');
for my $const ("\xe9") { is($f->contains($const), 1, 'a read-only argument') }
is($f->contains(lc "\N{U+C9}"), 1, 'the result of an expression');
is($f->contains("\xc3\xa9"), 0, 'the UTF-8 encoding of a character is another item');

# wide characters croak in every method and change nothing
my $w = "snow\x{2603}man";
for my $call (
    ['add',      sub { $f->add($w) }],
    ['contains', sub { $f->contains($w) }],
    ['count_of', sub { $f->count_of($w) }],
    ['remove',   sub { $f->remove($w) }],
    ['add_many', sub { $f->add_many([$w]) }],
) {
    my ($name, $code) = @$call;
    my $before = $f->stats->{counters_set};
    my $r = must_croak($code, "$name refuses a wide character");
    like($r->{out}, $wide, "... naming the reason");
    like(eval { $code->(); 'no error' } || $@, $wide, "... in this process too");
    is($f->stats->{counters_set}, $before, '... and sets no counter');
    is($w, "snow\x{2603}man", '... and leaves the argument alone');
}
must_work(sub { $f->add('usable'); 1 }, 'the filter is usable after the errors');

done_testing;
