# Filters through Storable: a restored one is an independent filter that holds
# the same, of the same class.
use strict;
use warnings;
use Test::More;
use Storable ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFCopy;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my %way = (
    dclone               => sub { Storable::dclone($_[0]) },
    'freeze and thaw'    => sub { Storable::thaw(Storable::freeze($_[0])) },
    'inside a structure' => sub {
        Storable::dclone({ list => [1, $_[0]] })->{list}[1];
    },
    'a file' => sub {
        Storable::nstore($_[0], "$dir/stored");
        Storable::retrieve("$dir/stored");
    },
);
for my $kind (sort keys %make) {
    my $f = filled($make{$kind}->());
    for my $way (sort keys %way) {
        my $copy = $way{$way}->($f);
        copy_ok($copy, $f, "copy $way", "$kind, $way");
    }
    my $two = Storable::dclone([$f, $f]);
    $two->[0]->add('twice there');
    is($two->[1]->contains('twice there'), 1,
        "$kind: one filter at two places stays one");
    undef $f;
    unlink "$dir/file.cbf";
}

# A frozen filter comes back as one that can be written.
{
    my $f = filled($CLASS->new(undef, @geometry));
    $f->freeze;
    my $copy = Storable::dclone($f);
    is($copy->frozen . $copy->readonly, '00', 'a copy of a frozen filter is mutable');
    table_is($copy, $model, '... and holds the same');
    is($f->frozen, 1, '... the original stays frozen');
}

# A stored filter that was damaged is an error, not a crash.
{
    my $stored = Storable::freeze(filled($CLASS->new(undef, @geometry)));
    my $at = index $stored, pack 'L', 0x53464243;
    cmp_ok($at, '>', 0, 'a stored filter holds an image');
    substr $stored, $at, 4, 'oops';
    my $r = guarded(8, sub { Storable::thaw($stored)->count });
    ok($r->{died}, 'restoring a damaged one dies') or diag outcome($r);
    like($r->{out}, qr/invalid counting Bloom filter/, '... and says why');
}

# What other code stored under our name, or an object without our hooks, is no
# filter: an error where it is restored or where it is used, never a crash.
{
    package Local::Bare;
    package Local::Bytes;
    sub STORABLE_freeze { return 'bytes of its own' }
    sub STORABLE_thaw { return }
    package Local::References;
    sub STORABLE_freeze { return ('bytes', [1, 2, 3]) }
    sub STORABLE_thaw { return }
}
my $n_names = 0;
for my $case (
    ['Local::Bare',       qr/not a \Q$CLASS\E object/],
    ['Local::Bytes',      qr/too small/],
    ['Local::References', qr/unexpected references/],
) {
    my ($other, $why) = @$case;
    my $name = sprintf 'Local::%0*d', length($CLASS) - 7, $n_names++;
    { no strict 'refs'; @{"${name}::ISA"} = $other }
    my $stored = Storable::freeze(bless \(my $number = 94_000_000), $name);
    is($stored =~ s/\Q$name\E/$CLASS/g, 1, "$other, stored under our name");
    my $r = guarded(8, sub { Storable::thaw($stored)->contains('often') });
    ok($r->{died}, '... is refused') or diag outcome($r);
    like($r->{out}, $why, '... and it says why');
}

done_testing;
