# Fifty processes at once, each with scans, so that each takes a reader slot;
# more handles than that in one of them; and nothing of it is left at the end.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (4000, 0.01);
my $N     = 50;
watchdog(90);

my $dir = File::Temp->newdir;
my $rounds = 3;

for my $kind (qw(file memfd anonymous)) {
    my $path = "$dir/$kind.cbf";
    my $f = $kind eq 'file' ? $CLASS->new($path, @PLAN)
        : $kind eq 'memfd'  ? $CLASS->new_memfd('many', @PLAN)
        :                     $CLASS->new(undef, @PLAN);
    my $parent = $$;
    my @r = together($N, 30, sub {
        my ($i, $me) = @_;
        my $g = $f;
        if ($i % 2 && $kind eq 'file') { $g = $CLASS->new($path, @PLAN) }
        if ($i % 2 && $kind eq 'memfd') { $g = $CLASS->new_from_fd($f->memfd) }
        my $last = 0;
        for my $n (1 .. 10) {
            $g->add("p$i-$n");
            my $s = $g->stats;
            die "items fell from $last to $s->{items}\n" if $s->{items} < $last;
            $last = $s->{items};
            die "items $last\n" if $last < $n || $last > $N * 10;
            $g->count;
            $g->histogram if $n == 5;
        }
        return scalar $g->contains_many([map { "p$i-$_" } 1 .. 10]);
    });
    my @bad = grep { outcome($_) ne 'returned 10' } @r;
    is(scalar @bad, 0, "$kind: $N processes that add and scan")
        or diag(map { outcome($_) . "\n" } @bad);
    my $model = CBFModel->new(@PLAN);
    for my $i (0 .. $N - 1) {
        $model->add("p$i-$_") for 1 .. 10;
    }
    my $image = $f->to_bytes;
    ok(substr($image, $CBFProc::AT{table}) eq $model->bytes,
        "$kind: the table is the model's");
    is($f->stats->{items}, 10 * $N, "$kind: and so are the tallies");
    is($f->stats->{ops}, 10 * $N, "$kind: every call was counted");
    if ($kind eq 'file') {
        undef $f;
        ok(lock_words(bytes_of($path)) !~ /[^\0]/,
            'file: no slot, bit or lock is left after the last close');
    }
}

# Slots come back: many more handles than slots, one after the other and many
# at a time, by processes that leave properly and by some that do not.
{
    my $path = "$dir/slots.cbf";
    my $f = $CLASS->new($path, @PLAN);
    my $fh = handle_on($path);
    $f->count;
    my $taken = sub {
        my $slots = substr header_of($fh), $CBFProc::AT{slots}, 16_384;
        return scalar grep { $_ } unpack '(L x12)*', $slots;
    };
    my $before = $taken->();
    for (1 .. 3) {
        my @h = map { $CLASS->new($path, @PLAN) } 1 .. 400;
        $_->count for @h;
        undef @h;
    }
    is($taken->(), $before, '1200 handles that scanned left no slot taken');

    for my $round (1 .. $rounds) {
        my @c = map { spawn(sub { $f->count; $_[0]->tell('on'); $_[0]->hear }) }
            1 .. 20;
        $_->hear(10) for @c;
        $_->kill for @c;
        $_->reap for @c;
    }
    my $r = in_time(5, sub {
        $f->add('after them');
        return $f->contains('after them') + ($f->count > 0);
    });
    is(outcome($r), 'returned 2', '60 that were killed hinder nobody');
    undef $f;
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, '... and leave nothing for ever');
}

done_testing;
