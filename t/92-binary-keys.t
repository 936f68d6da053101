# Items are byte strings: NUL bytes, the empty string, prefixes and very long
# items are all different items.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $f = $CLASS->new(undef, 20_000, 1e-6);

my $mega = "\0" x (1 << 20);
my %item = (
    'empty'                 => '',
    'one NUL'               => "\0",
    'two NULs'              => "\0\0",
    'a'                     => 'a',
    'a NUL'                 => "a\0",
    'a NUL NUL'             => "a\0\0",
    'NUL a'                 => "\0a",
    'a NUL b'               => "a\0b",
    'a NUL c'               => "a\0c",
    'newline'               => "\n",
    'digit zero'            => '0',
    'high byte'             => "\xff",
    'two high bytes'        => "\xff\xff",
    '1 MiB of NUL'          => $mega,
    '1 MiB of NUL less one' => substr($mega, 1),
    '1 MiB of NUL plus one' => "$mega\0",
    '1 MiB, last byte 1'    => substr($mega, 1) . "\1",
    '1 MiB, first byte 1'   => "\1" . substr($mega, 1),
    '8 MiB'                 => 'z' x (8 << 20),
    '8 MiB, middle changed' => ('z' x (4 << 20)) . 'Z' . ('z' x ((4 << 20) - 1)),
);
my @names = sort keys %item;
my @mixed;
for my $n (@names) {
    $f->clear;
    push @mixed, "add '$n' was not new" if $f->add($item{$n}) != 1;
    for my $o (@names) {
        my $got = $f->contains($item{$o});
        push @mixed, "after adding '$n', contains('$o') is $got" if $got != ($n eq $o ? 1 : 0);
    }
    push @mixed, "'$n' counted wrongly" if $f->count_of($item{$n}) != 1;
    push @mixed, "'$n' not removable" if $f->remove($item{$n}) != 1 || $f->contains($item{$n});
}
is(scalar @mixed, 0, 'byte strings that differ anywhere are different items') or diag(join "\n", @mixed[0 .. ($#mixed > 9 ? 9 : $#mixed)]);

# Every prefix of one string, and every single byte: lengths around a hash's internal block sizes.
$f->clear;
my $long = join '', map { chr(($_ * 131 + ($_ >> 3)) & 255) } 1 .. 1300;
my @prefix = map { substr $long, 0, $_ } 0 .. 1300;
my @single = map { chr $_ } 0 .. 255;
my @all = do { my %s; grep { !$s{$_}++ } @prefix, @single };
is($f->add_many(\@all), scalar @all, 'all prefixes and single bytes are new');
is(scalar(grep { $f->count_of($_) != 1 } @all), 0, 'each was counted once');
my %known = map { $_ => 1 } @all;
is(scalar(grep { $f->contains("$_\0") } grep { !$known{"$_\0"} } @all), 0, 'none is confused with itself plus a NUL');

# one by one and in a batch is the same item
$f->clear;
$f->add($_) for values %item;
is($f->add_many([values %item]), 0, 'a batch sees the items added one by one');
is(scalar(grep { $f->count_of($_) != 2 } values %item), 0, '... and counts them a second time');

# part of a larger scalar, without a copy of its own
my $blob = "xx\0yyzz";
$f->clear;
$f->add(substr $blob, 1, 3);
is($f->contains("x\0y"), 1, 'a substr() of a larger string is hashed by its own bytes only');
is($f->contains("x\0yyzz"), 0, '... not by what follows in the buffer');

done_testing;
