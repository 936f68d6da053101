# The probes of an item come from XXH3-128 with seed 0.  First the plain Perl
# hash of these tests against recorded values (made with the xxhsum program of
# the hash's author, "xxhsum -H2"), then the module's counters against the
# probes that hash gives, for every length up to 260 and around the block sizes
# beyond, where the hash changes its method.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use CBFXXH3 qw(xxh3_128_hex);
use Data::CountingBloomFilter::Shared;

watchdog;

# Byte i of the text, counted from 1, is (131 i + int(i / 8)) mod 256.
my $text = join '', map { chr(($_ * 131 + ($_ >> 3)) & 255) } 1 .. 5000;
my %vector = qw(
    0 99aa06d3014798d86001c324468d497f
    1 401bda733153c4a35bdd139269f447c1
    2 cf4d63f0cab22d4666cbe5b8b8c23c3a
    3 7a215fd3055fa683cc3d1ca990a6dc64
    4 07a89c222f3854d25ad8349cdd781026
    5 fa93cebd217a6340cc1bfef8d92d17ad
    8 02d3e7c1f894224d5b0e214327d73374
    9 03522a65a2d7d8bf35a183a46047e182
    16 94ac535b4c5cb419258a1aeb5a37048a
    17 a6592665cc2407dededeb8e332f244d3
    32 0c9a934d277f3fabae91582e937739b3
    33 162d7fddf515039bc12a110f907eb12b
    64 a4ab9ee2a67940910209725634999890
    65 77577d90286e953af73837654af13720
    96 0a274f8dcd2b9fa327e2d1ad40638b29
    97 ac5dff56ab503b0c5d5dfbb5022fa23c
    128 2e04b4ea05aa20d024558f09e20bce11
    129 e0e411b129862b0c5a128a2363b17915
    160 bbae3c62d3dcc79462112dfc78770e74
    161 ab7b0d69182d04b8de05c2212add97c8
    239 5be1d9bbb94f9d85005c5818807515dc
    240 e843d5097ff7dbf134230a97c8899d5c
    241 d8a7831c522a9bdae7abd41364cb1047
    256 965ac1a961e15b793c087dadd2e3486d
    257 a2ad38cd000464a6959f58e0dfbf199c
    1024 134123861ffe26a0599bec6d1ab85814
    1025 272c7c22439d63671283f087dc711cb3
    1088 931fc0d8cda1b696e1892a648d304c41
    1089 8807a806d677224a3eaae85cb13b3ca9
    2048 16d0eca9734c2e5da373e7bc9990a304
    5000 6532a237d48a4b50abfaf83d8167e70f
);
for my $len (sort { $a <=> $b } keys %vector) {
    is(xxh3_128_hex(substr $text, 0, $len), $vector{$len},
        "the hash of the first $len bytes");
}

# The same with well-known words, from the same program.
my %word = (
    'The quick brown fox jumps over the lazy dog' =>
        'ddd650205ca3e7fa24a1cc2e3a8a7651',
    'a' =>
        'a96faf705af16834e6c632b61e964e1f',
    'abc' =>
        '06b05ab6733a618578af5f94892f3950',
    'item-1' =>
        '9adbc06b2447e5ed5fc2a74144e85517',
    'message digest' =>
        '34ab715d95e3b6490abfabecb8e3a424',
    'twice' =>
        '915d0778e9e4929f3b87e67505d9dbcf',
);
is(xxh3_128_hex($_), $word{$_}, "the hash of '$_'") for sort keys %word;

# One filter, one item at a time: the table must hold a 1 more at each
# probe and nothing else.  1e-6 gives 20 probes, in 1,048,576 counters where two
# items hardly ever meet.
my $f     = $CLASS->new(undef, 30_000, 1e-6);
my $model = CBFModel->new(30_000, 1e-6);
is($f->hashes . ' ' . $f->counters, '20 1048576', 'the geometry of the filter');
my @lengths = (0 .. 260, 383, 384, 511 .. 513, 1023 .. 1026, 1087 .. 1090,
    2047 .. 2050, 4999, 5000);
my @wrong;
for my $len (@lengths) {
    my $item = substr $text, 0, $len;
    my $new  = $model->add($item);
    push @wrong, "length $len: add" if $f->add($item) != $new;
    push @wrong, "length $len: count_of"
        if $f->count_of($item) != $model->count_of($item);
}
is("@wrong", '', 'add and count_of answer as the model, at each length');
table_is($f, $model, 'the items of all lengths hit the counters they should');

# The same items in a batch, hashed by another path.
my @items = map { substr $text, 0, $_ } @lengths;
is($f->add_many(\@items), 0, 'a batch of the same items finds them all');
$model->add_many(\@items);
table_is($f, $model, 'a batch hits the same counters');

# No length on its own hides behind the others: single bytes, all of them, and
# each in an empty filter.
@wrong = ();
my $small = $CLASS->new(undef, 50, 0.001);
my $twin  = CBFModel->new(50, 0.001);
for my $byte (0 .. 255) {
    my $item = chr $byte;
    $_->clear for $small, $twin;
    $_->add($item) for $small, $twin;
    push @wrong, sprintf 'byte %02x', $byte unless table_is($small, $twin);
}
is("@wrong", '', 'each single byte hits its own counters');

# By construction the probes of one item never meet: the step is odd, the number
# of counters a power of two and at least twice the number of probes.  So an add
# raises exactly k counters.
my $met = 0;
for my $i (1 .. 300) {
    my $tiny = CBFModel->new(1, 1e-12);
    my %seen;
    $seen{$_}++ for $tiny->positions("probe $i");
    $met++ if keys %seen != 32;
}
is($met, 0, '32 probes into 64 counters are 32 counters');

done_testing;
