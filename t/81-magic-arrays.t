# Batches whose elements' code changes the array that is being read: freed,
# emptied, grown, shrunk, replaced.  No crash, no lock left, all or nothing where
# a read fails; what was counted can be taken off again.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFMagic;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (5000, 0.001);
watchdog(60);

my @batch = qw(add_many remove_many contains_many count_of_many present absent
    add_if_absent_many);

my %evil = (
    'empties the array'    => sub { @{ $_[0] } = () },
    'undefines the array'  => sub { undef @{ $_[0] } },
    'cuts it to one'       => sub { $#{ $_[0] } = 0 },
    'cuts it below one'    => sub { $#{ $_[0] } = -1 },
    'grows it'             => sub { push @{ $_[0] }, map { "more-$_" } 1 .. 20_000 },
    'shifts it'            => sub { shift @{ $_[0] } for 1 .. 3 },
    'unshifts'             => sub { unshift @{ $_[0] }, map { "front-$_" } 1 .. 5000 },
    'splices itself out'   => sub { splice @{ $_[0] }, 0, 5 },
    'replaces all others'  => sub { $_ = 'other' for @{ $_[0] }[0 .. 1, 4 .. 9] },
    'undefines all'        => sub { $_ = undef for @{ $_[0] } },
    'replaces itself'      => sub { $_[0][3] = 'plain' },
    'deletes elements'     => sub { delete $_[0][$_] for 0 .. 9 },
    'frees the reference'  => sub { $_[0] = undef },
    'puts another array there' => sub { $_[0] = ['x'] },
    'sorts it in place'    => sub { @{ $_[0] } = sort { ref $a ? 1 : ref $b ? -1 : $a cmp $b } @{ $_[0] } },
    'uses up memory'       => sub { my @a = map { [$_] } 1 .. 5000; @{ $_[0] } = @a[0 .. 9] },
);

for my $how (qw(overloaded tied)) {
    for my $name (sort keys %evil) {
        my @wrong;
        for my $method (@batch) {
            my $r = in_time(5, sub {
                no warnings 'uninitialized';
                my $f = $CLASS->new(undef, @PLAN);
                my $list = [map { "item-$_" } 0 .. 9];
                my $once = 0;
                my $code = sub { $evil{$name}->($list) if !$once++ };
                if ($how eq 'tied') { tie $list->[3], 'CBFMagic::Tied', 'evil', $code }
                else { $list->[3] = CBFMagic::item('evil', $code) }
                my @got;
                my $ok = eval { @got = $f->$method($list); 1 };
                die $@ if !$ok && $@ !~ /\A\Q$CLASS\E->$method: /;
                # sound, unlocked, and with no more in it than was said
                my ($set, $full, $sum)
                    = tally_of(substr $f->to_bytes, $CBFProc::AT{table});
                my $items = $f->stats->{items};
                die "tallies\n" if abs($items * $f->hashes - $sum) > 1e-3;
                die "$items after a croak\n" if !$ok && $items;
                die "$items of a read\n" if $items && $method !~ /^add/;
                die "$items against @got\n"
                    if $ok && $method eq 'add_many' && $got[0] > $items;
                # length is settled before the first element is read
                die "$items items\n" if $items > 10;
                $f->add('usable');
                return $f->contains('usable');
            });
            push @wrong, "$method: " . outcome($r)
                if outcome($r) ne 'returned 1';
        }
        is("@wrong", '', "an $how element that $name");
    }
}

# All or nothing: an element that cannot be read spoils the batch before it has
# begun, wherever it stands.
{
    my $up = "snow\x{2603}";
    my %bad = (
        'a wide character' => [sub { $up }, qr/\A\Q$CLASS\E->\w+: .*Wide character/],
        'a wide overloaded one' => [sub { CBFMagic::item($up, sub { }) },
            qr/Wide character/],
        'a dying one' => [sub { CBFMagic::item('x', sub { die "no\n" }) },
            qr/\Ano\n/],
    );
    for my $name (sort keys %bad) {
        my ($make, $error) = @{ $bad{$name} };
        for my $at (0, 1, 50, 99) {
            my $f = $CLASS->new(undef, @PLAN);
            my $model = CBFModel->new(@PLAN);
            my @all = map { "item-$_" } 1 .. 100;
            $_->add_many([@all[0 .. 9]]) for $f, $model;
            my $before = $f->to_bytes;
            $all[$at] = $make->();
            my @wrong;
            for my $method (@batch) {
                my $text = eval { $f->$method(\@all); 1 } ? 'none' : $@;
                push @wrong, "$method: $text" if $text !~ $error;
            }
            is("@wrong", '', "$name at $at: every batch call croaks");
            ok($f->to_bytes eq $before, '... and not a byte is changed');
        }
    }
}

# A tied array is asked for its size once and for each element once.
for my $method (@batch) {
    my $f = $CLASS->new(undef, @PLAN);
    my $o = tie my @a, 'CBFMagic::Array', size => 30;
    my @got = $f->$method(\@a);
    is("$o->{sizes} $o->{n}", '1 30', "$method: a tied array is read once")
        or diag("FETCHSIZE $o->{sizes}, FETCH $o->{n}");
}
for my $case (['grows', sub { $_[0]{size} = 1000 }],
              ['shrinks', sub { $_[0]{size} = 2 }],
              ['is untied', sub { }]) {
    my ($name, $code) = @$case;
    no warnings 'untie';
    my $r = in_time(5, sub {
        my $f = $CLASS->new(undef, @PLAN);
        my @a;
        tie @a, 'CBFMagic::Array', size => 30,
            code => $name =~ /untied/ ? sub { untie @a if $_[1] == 4 } : $code;
        no warnings;
        my $ok = eval { $f->add_many(\@a); 1 };
        die $@ if !$ok && $@ !~ /\A\Q$CLASS\E->/;
        my $n = $f->stats->{items};
        return $n <= 30 ? 'fine' : $n;
    });
    is(outcome($r), 'returned fine', "a tied array that $name while it is read");
}

# What present, absent and add_if_absent_many return are the elements, also when
# the array is gone by then.
{
    my $r = in_time(5, sub {
        my $f = $CLASS->new(undef, @PLAN);
        $f->add('a');
        my $list = ['a', 'b', 'c', CBFMagic::item('d', sub { })];
        my @absent = $f->absent($list);
        undef $list;
        return join ' ', map { "$_" } @absent;
    });
    is(outcome($r), 'returned b c d', 'elements outlive their array');

    my $f = $CLASS->new(undef, @PLAN);
    my @a = map { "item-$_" } 1 .. 5;
    $_ .= '!' for $f->add_if_absent_many(\@a);
    is("@a", 'item-1! item-2! item-3! item-4! item-5!', 'and are not copies');
    my $count = Internals::SvREFCNT($a[0]);
    my @x = $f->absent(\@a) for 1 .. 100;
    is(Internals::SvREFCNT($a[0]), $count, 'their reference counts are kept');
    is(Internals::SvREFCNT(@a), 1, '... and the array\'s');
}

done_testing;
