# Several handles on one filter in one process, merges between filters in all
# directions at once, and readers of the whole table while writers work: what
# they see is always one moment between two calls.
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
my @PLAN  = (2000, 0.001);
watchdog(60);

my $dir = File::Temp->newdir;
sub table { substr $_[0]->to_bytes, $CBFProc::AT{table} }

# Three handles of one file.
{
    my $path = "$dir/three.cbf";
    my $model = CBFModel->new(@PLAN);
    my @h = map { $CLASS->new($path, @PLAN) } 1 .. 3;
    for my $n (1 .. 300) {
        $h[$n % 3]->add("item-$n");
        $model->add("item-$n");
        $h[($n + 1) % 3]->remove("item-$n"), $model->remove("item-$n")
            if $n % 5 == 0;
    }
    for my $i (0 .. 2) {
        ok(table($h[$i]) eq $model->bytes, "handle $i sees what all did");
        is($h[$i]->stats->{items}, 240, "... and counts it");
    }
    my @s = map { $_->stats } @h;
    is_deeply($s[$_], $s[0], "stats of handle $_ are those of handle 0")
        for 1, 2;

    undef $h[1];
    $h[0]->add('after a close');
    is($h[2]->contains('after a close'), 1, 'one closed, the others go on');
    is($h[2]->count, $h[0]->count, '... with scans too');

    my $twice = $model->clone;
    $_->add('after a close') for $twice, $model;
    $twice->merge($twice);
    my $r = in_time(5, sub { $h[0]->merge($h[2]); 'merged' });
    is(outcome($r), 'returned merged', 'one merged into the other');
    ok(table($h[0]) eq $twice->bytes, '... doubles the filter, as it is one');
    undef @h;
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, 'all closed: lock words zero');
}

# A child and a grandchild with handles of both kinds.
{
    my $path = "$dir/mixed.cbf";
    my $f = $CLASS->new($path, @PLAN);
    my $r = in_time(10, sub {
        my $g = $CLASS->new($path, @PLAN);
        $f->add('1');
        $g->add('2');
        my $inner = in_time(5, sub {
            my $h = $CLASS->new($path, @PLAN);
            $_->add('3'), $_->count for $f, $g, $h;
            undef $f;
            $g->add('4');
            return $h->stats->{items};
        });
        die outcome($inner) unless $inner->{ok};
        undef $f;
        return $inner->{list}[0] + $g->stats->{items};
    });
    is(outcome($r), 'returned 12', 'inherited and own handles in one process');
    is($f->stats->{items}, 6, '... and the first one saw it all');
}

# Merges in both directions at once, and round in a circle.
for my $n (2, 3) {
    my @f = map { $CLASS->new(undef, @PLAN) } 1 .. $n;
    my $union = CBFModel->new(@PLAN);
    for my $i (0 .. $n - 1) {
        my @mine = map { "filter-$i-$_" } 1 .. 100;
        $f[$i]->add_many(\@mine);
        $union->add_many(\@mine);
    }
    my @r = together($n, 15, sub {
        my ($i) = @_;
        $f[$i]->merge($f[($i + 1) % $n]) for 1 .. 60;
        return 'merged';
    });
    is(join('; ', map { outcome($_) } @r), join('; ', ('returned merged') x $n),
        "$n filters merged into one another at once: nobody waits for ever");
    # one may have been through before the others began: once more round
    for my $i (1 .. 2 * $n) { $f[-$i % $n]->merge($f[(1 - $i) % $n]) }
    my $want = join '', map { $_ ? 1 : 0 } @{ $union->{counter} };
    for my $i (0 .. $n - 1) {
        my $table = table($f[$i]);
        my $got = join '', map { ($_ & 15 ? 1 : 0, $_ >> 4 ? 1 : 0) }
            unpack 'C*', $table;
        ok($got eq $want, "filter $i has the counters of the union, no others");
        my ($set, $full, $sum) = tally_of($table);
        my $s = $f[$i]->stats;
        is("$s->{counters_set} $s->{saturated}", "$set $full",
            '... and tallies them');
        cmp_ok(abs($s->{items} - $sum / $f[$i]->hashes), '<', 1e-6,
            '... to the sum');
    }
}

# Readers see whole calls only: every writer adds and removes batches of 50.
{
    my $f = $CLASS->new(undef, @PLAN);
    my $k = $f->hashes;
    my $m = $f->counters;
    my @writer = map {
        my $i = $_;
        my @mine = map { "writer-$i-$_" } 1 .. 50;
        spawn(sub {
            my ($me) = @_;
            my $n = 0;
            until ($me->told) {
                $f->add_many(\@mine);
                $f->remove_many(\@mine);
                $n++;
            }
            return $n;
        });
    } 0 .. 1;
    my @reader = map {
        my $i = $_;
        spawn(sub {
            my %seen;
            for my $n (1 .. 150) {
                my $s = $f->stats;
                die "items $s->{items}\n" if $s->{items} % 50;
                die "count $s->{count}\n" if $s->{items} ? $s->{count} < 45
                    : $s->{count};
                die "fill\n" if $s->{fill_ratio} != $s->{counters_set} / $m;
                my ($set, undef, $sum) = tally_of(table($f));
                die "an image with $sum\n" if $sum % (50 * $k);
                my $h = $f->histogram;
                my ($all, $value) = (0, 0);
                $all += $h->[$_], $value += $_ * $h->[$_] for 0 .. 15;
                die "histogram of $all\n" if $all != $m;
                die "histogram with $value\n" if $value % (50 * $k);
                $seen{ $s->{items} }++;
            }
            return join ' ', sort { $a <=> $b } keys %seen;
        });
    } 0 .. 1;
    for my $c (@reader) {
        my $r = $c->result(30);
        ok($r->{ok}, 'a reader of the whole table saw whole batches only')
            or diag(outcome($r));
        note(outcome($r));
    }
    $_->tell('enough') for @writer;
    for my $c (@writer) {
        my $r = $c->result(10);
        ok($r->{ok} && $r->{list}[0] > 0, 'a writer among them got its turns')
            or diag(outcome($r));
    }
    is($f->stats->{items}, 0, 'and all is removed in the end');
    ok(table($f) !~ /[^\0]/, '... to the last counter');
}

done_testing;
