package CBFXXH3;

# XXH3-128 with seed 0, written out in plain Perl from the algorithm's
# description, so that tests know an item's probes without asking the code under
# test.  Slow on purpose: one small step per line, no table but the secret.
# Knows nothing of filters, counters or probes.

use strict;
use warnings;
no warnings 'portable';    # 64-bit constants, on 64-bit perls only
use Exporter 'import';

our @EXPORT_OK = qw(xxh3_128 xxh3_128_hex mul64 add64);

# The 192 bytes every implementation starts from.
my $SECRET = pack 'H*', join '', qw(
    b8fe6c3923a44bbe 7c01812cf721ad1c ded46de9839097db 7240a4a4b7b3671f
    cb79e64eccc0e578 825ad07dccff7221 b8084674f743248e e03590e6813a264c
    3c2852bb91c300cb 88d0658b1b532ea3 71644897a20df94e 3819ef46a9deacd8
    a8fa763fe39c343f f9dcbbc7c70b4f1d 8a51e04bcdb45931 c89f7ec9d9787364
    eac5ac8334d3ebc3 c581a0fffa1363eb 170ddd51b7f0da49 d316552629d4689e
    2b16be587d47a1fc 8ff8b8d17ad031ce 45cb3a8f95160428 afd7fbcabb4b407e
);

use constant {
    P32_1  => 0x9E3779B1,
    P32_2  => 0x85EBCA77,
    P32_3  => 0xC2B2AE3D,
    P64_1  => 0x9E3779B185EBCA87,
    P64_2  => 0xC2B2AE3D27D4EB4F,
    P64_3  => 0x165667B19E3779F9,
    P64_4  => 0x85EBCA77C2B2AE63,
    P64_5  => 0x27D4EB2F165667C5,
    MIX_1  => 0x165667919E3779F9,
    MIX_2  => 0x9FB21C651E98DF25,
    LOW32  => 0xFFFFFFFF,
    STRIPE => 64,
};

# Arithmetic modulo 2**64.  Perl turns a sum or product that does not fit into a
# floating point number, except under "use integer", whose results wrap; the
# "| 0" makes them unsigned again.
sub add64 { my $r; { use integer; $r = $_[0] + $_[1] } $r | 0 }
sub sub64 { my $r; { use integer; $r = $_[0] - $_[1] } $r | 0 }
sub mul64 { my $r; { use integer; $r = $_[0] * $_[1] } $r | 0 }

# The whole 128-bit product, as (low, high), from four 32-bit by 32-bit ones,
# none of which can overflow, nor can the sums below.
sub mul128 {
    my ($x, $y) = @_;
    my ($xl, $xh, $yl, $yh) = ($x & LOW32, $x >> 32, $y & LOW32, $y >> 32);
    my $ll    = $xl * $yl;
    my $hl    = $xh * $yl;
    my $cross = ($ll >> 32) + ($hl & LOW32) + $xl * $yh;
    my $high  = ($hl >> 32) + ($cross >> 32) + $xh * $yh;
    return ((($cross & LOW32) << 32) | ($ll & LOW32), $high);
}

sub fold { my ($low, $high) = mul128(@_); $low ^ $high }
sub u32  { unpack 'L<', substr $_[0], $_[1], 4 }
sub u64  { unpack 'Q<', substr $_[0], $_[1], 8 }
sub key  { unpack 'Q<', substr $SECRET, $_[0], 8 }
sub swap32 { unpack 'L>', pack 'L<', $_[0] }
sub swap64 { unpack 'Q>', pack 'Q<', $_[0] }

sub avalanche {
    my ($h) = @_;
    $h = mul64($h ^ ($h >> 37), MIX_1);
    return $h ^ ($h >> 32);
}

sub avalanche_64 {
    my ($h) = @_;
    $h = mul64($h ^ ($h >> 33), P64_2);
    $h = mul64($h ^ ($h >> 29), P64_3);
    return $h ^ ($h >> 32);
}

sub hash_0 {
    return (avalanche_64(key(64) ^ key(72)), avalanche_64(key(80) ^ key(88)));
}

sub hash_1_to_3 {
    my ($in, $len) = @_;
    my ($first, $mid, $last)
        = map { ord substr $in, $_, 1 } 0, $len >> 1, $len - 1;
    my $low  = $first << 16 | $mid << 24 | $last | $len << 8;
    my $high = swap32($low);
    $high = ($high << 13 | $high >> 19) & LOW32;
    return (avalanche_64($low  ^ u32($SECRET, 0) ^ u32($SECRET, 4)),
            avalanche_64($high ^ u32($SECRET, 8) ^ u32($SECRET, 12)));
}

sub hash_4_to_8 {
    my ($in, $len) = @_;
    my $word = u32($in, 0) | u32($in, $len - 4) << 32;
    my ($low, $high) = mul128($word ^ key(16) ^ key(24), P64_1 + 4 * $len);
    $high = add64($high, $low << 1);
    $low ^= $high >> 3;
    $low = mul64($low ^ ($low >> 35), MIX_2);
    return ($low ^ ($low >> 28), avalanche($high));
}

sub hash_9_to_16 {
    my ($in, $len) = @_;
    my ($head, $tail) = (u64($in, 0), u64($in, $len - 8));
    my ($low, $high) = mul128($head ^ $tail ^ key(32) ^ key(40), P64_1);
    $low = add64($low, ($len - 1) << 54);
    $tail ^= key(48) ^ key(56);
    $high = add64($high, add64($tail, mul64($tail & LOW32, P32_2 - 1)));
    $low ^= swap64($high);
    my ($l, $h) = mul128($low, P64_2);
    return (avalanche($l), avalanche(add64($h, mul64($high, P64_2))));
}

sub mix_16 {
    my ($in, $at, $key) = @_;
    return fold(u64($in, $at) ^ key($key), u64($in, $at + 8) ^ key($key + 8));
}

# Mixes the 16 bytes at $one and the 16 at $two into the accumulator pair.
sub mix_32 {
    my ($acc, $in, $one, $two, $key) = @_;
    $acc->[0] = add64($acc->[0], mix_16($in, $one, $key))
        ^ add64(u64($in, $two), u64($in, $two + 8));
    $acc->[1] = add64($acc->[1], mix_16($in, $two, $key + 16))
        ^ add64(u64($in, $one), u64($in, $one + 8));
}

sub close_middle {
    my ($acc, $len) = @_;
    my $low  = add64($acc->[0], $acc->[1]);
    my $high = add64(mul64($acc->[0], P64_1), mul64($acc->[1], P64_4));
    $high = add64($high, mul64($len, P64_2));
    return (avalanche($low), sub64(0, avalanche($high)));
}

sub hash_17_to_128 {
    my ($in, $len) = @_;
    my @acc = (mul64($len, P64_1), 0);
    for my $i (reverse 0 .. ($len - 1) >> 5) {
        mix_32(\@acc, $in, 16 * $i, $len - 16 * ($i + 1), 32 * $i);
    }
    return close_middle(\@acc, $len);
}

sub hash_129_to_240 {
    my ($in, $len) = @_;
    my @acc = (mul64($len, P64_1), 0);
    mix_32(\@acc, $in, 32 * $_, 32 * $_ + 16, 32 * $_) for 0 .. 3;
    $_ = avalanche($_) for @acc;
    for my $i (4 .. int($len / 32) - 1) {
        mix_32(\@acc, $in, 32 * $i, 32 * $i + 16, 32 * ($i - 4) + 3);
    }
    mix_32(\@acc, $in, $len - 16, $len - 32, 103);
    return close_middle(\@acc, $len);
}

# Takes in one stripe of 64 bytes.
sub stripe {
    my ($acc, $in, $at, $key) = @_;
    for my $i (0 .. 7) {
        my $value = u64($in, $at + 8 * $i);
        my $keyed = $value ^ key($key + 8 * $i);
        $acc->[$i ^ 1] = add64($acc->[$i ^ 1], $value);
        $acc->[$i] = add64($acc->[$i], ($keyed & LOW32) * ($keyed >> 32));
    }
}

sub merge_stripes {
    my ($acc, $key, $sum) = @_;
    for my $i (0 .. 3) {
        $sum = add64($sum, fold($acc->[2 * $i] ^ key($key + 16 * $i),
                                $acc->[2 * $i + 1] ^ key($key + 16 * $i + 8)));
    }
    return avalanche($sum);
}

sub hash_long {
    my ($in, $len) = @_;
    my @acc = (P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1);
    my $per_block = (length($SECRET) - STRIPE) / 8;
    my $stripes   = int(($len - 1) / STRIPE);
    for my $n (0 .. $stripes - 1) {
        stripe(\@acc, $in, STRIPE * $n, 8 * ($n % $per_block));
        next if ($n + 1) % $per_block;
        for my $i (0 .. 7) {
            my $mixed = $acc[$i] ^ ($acc[$i] >> 47) ^ key(128 + 8 * $i);
            $acc[$i] = mul64($mixed, P32_1);
        }
    }
    stripe(\@acc, $in, $len - STRIPE, 121);
    my $bits = ~mul64($len, P64_2);
    return (merge_stripes(\@acc, 11, mul64($len, P64_1)),
            merge_stripes(\@acc, 117, $bits));
}

# The two 64-bit halves, low first, of a string of bytes.
sub xxh3_128 {
    my ($in) = @_;
    my $len = length $in;
    return $len > 240 ? hash_long($in, $len)
        : $len > 128  ? hash_129_to_240($in, $len)
        : $len > 16   ? hash_17_to_128($in, $len)
        : $len > 8    ? hash_9_to_16($in, $len)
        : $len > 3    ? hash_4_to_8($in, $len)
        : $len > 0    ? hash_1_to_3($in, $len)
        :               hash_0();
}

# As the hash is usually printed: high half first.
sub xxh3_128_hex {
    my ($low, $high) = xxh3_128(@_);
    return sprintf '%016x%016x', $high, $low;
}

1;
