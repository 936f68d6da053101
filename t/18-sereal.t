# Filters through Sereal, and by its protocol without Sereal: a restored one is
# an independent filter that holds the same, of the same class.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFCopy;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my ($fresh) = grep { !$model->contains($_) } map { "fresh $_" } 1 .. 50;

# ---- the protocol, whoever speaks it ------------------------------------

for my $kind (sort keys %make) {
    my $f = filled($make{$kind}->());
    my @stored = $f->FREEZE('Whoever');
    is(scalar @stored, 1, "$kind: one value is stored");
    ok(!ref $stored[0] && !utf8::is_utf8($stored[0]), '... bytes');
    copy_ok(ref($f)->THAW('Whoever', @stored), $f, $fresh, "$kind, THAW");
    undef $f;
    unlink "$dir/file.cbf";
}
croaks('new_from_bytes', qr/bytes are required/,
    sub { $CLASS->THAW('Whoever') }, 'nothing to restore from');
croaks('new_from_bytes', qr/invalid counting Bloom filter|too small/,
    sub { $CLASS->THAW('Whoever', 'of another class') },
    'something that is no filter');
like(error_of(sub { (bless \(my $n = 12345), $CLASS)->FREEZE('Whoever') }),
    qr/\A\Q$CLASS\E->to_bytes: not a \Q$CLASS\E object/,
    'a forged object is not stored');

# ---- Sereal -------------------------------------------------------------

SKIP: {
    skip 'Sereal is not installed', 1
        if !eval { require Sereal::Encoder; require Sereal::Decoder; 1 };
    subtest 'Sereal' => \&through_sereal;
}
done_testing;

sub through_sereal {
    my $to   = Sereal::Encoder->new({ freeze_callbacks => 1 });
    my $from = Sereal::Decoder->new;

    my %way = (
        'itself'             => sub { $from->decode($to->encode($_[0])) },
        'inside a structure' => sub {
            $from->decode($to->encode({ list => [1, $_[0]] }))->{list}[1];
        },
        'compressed' => sub {
            $from->decode(Sereal::Encoder->new({ freeze_callbacks => 1,
                compress => Sereal::Encoder::SRL_ZLIB() })->encode($_[0]));
        },
    );
    for my $kind (sort keys %make) {
        my $f = filled($make{$kind}->());
        copy_ok($way{$_}->($f), $f, $fresh, "$kind, $_") for sort keys %way;
        my $two = $from->decode($to->encode([$f, $f]));
        $two->[0]->add('twice there');
        is($two->[1]->contains('twice there'), 1,
            "$kind: one filter at two places stays one");
        undef $f;
        unlink "$dir/file.cbf";
    }

    # A frozen filter comes back as one that can be written.
    my $frozen = filled($CLASS->new(undef, @geometry));
    $frozen->freeze;
    my $copy = $from->decode($to->encode($frozen));
    is($copy->frozen . $copy->readonly, '00', 'a copy of a frozen one is mutable');
    table_is($copy, $model, '... and holds the same');

    # A stored filter that was damaged is an error, not a crash.
    my $stored = $to->encode($frozen);
    my $at = index $stored, pack 'L', 0x53464243;
    cmp_ok($at, '>', 0, 'a stored filter holds an image');
    substr $stored, $at, 4, 'oops';
    my $r = guarded(8, sub { $from->decode($stored)->count });
    ok($r->{died}, 'restoring a damaged one dies') or diag outcome($r);
    like($r->{out}, qr/invalid counting Bloom filter/, '... and says why');

    # Stored without the hooks there is a number in it, and no filter.
    my $bare = Sereal::Encoder->new->encode($frozen);
    $r = guarded(8, sub { $from->decode($bare)->contains('often') });
    ok($r->{died}, 'one that was stored without the hooks is none')
        or diag outcome($r);
    like($r->{out}, qr/\A\Q$CLASS\E->contains: not a \Q$CLASS\E object/,
        '... and says so');
    return;
}
