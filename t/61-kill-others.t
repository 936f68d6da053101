# A writer is killed while one or three other processes work on the same filter:
# all of them go on within a bounded time, and the table is the sum of what they
# left and of the killed one's whole items.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use CBFStorm;
use Data::CountingBloomFilter::Shared;

my $CLASS  = 'Data::CountingBloomFilter::Shared';
my @PLAN   = (3000, 0.001);
my $ROUNDS = $ENV{CBF_TEST_KILLS} || 40;
watchdog(90);

my $dir  = File::Temp->newdir;
my $path = "$dir/shared.cbf";
my $seed = 61_003;
srand $seed;

my @kept  = map { "kept-$_" } 1 .. 100;
my @batch = map { ("batch-$_") x 2 } 1 .. 700;
my $base  = CBFModel->new(@PLAN);
$base->add_many(\@kept);
my @up   = add_steps($base, @batch);
my @down = remove_steps($base, @batch);
my $top  = $base->clone;
$top->add_many(\@batch);

# Others come back to where they were before they fall quiet.
sub other {
    my ($me, $f, $i) = @_;
    my @mine = map { "other-$i-$_" } 1 .. 40;
    my $rounds = 0;
    while (1) {
        if ($me->told) {
            my ($word) = $me->hear or return $rounds;
            return $rounds if $word eq 'stop';
            $me->tell('quiet', $rounds);
            $me->hear;
        }
        $f->add_many(\@mine);
        $f->add("single-$i");
        my $s = $f->stats;
        die "items $s->{items}\n" if $s->{items} < 141;
        $f->contains_many(\@kept) == @kept or die "an item is lost\n";
        $f->remove("single-$i") or die "my item is gone\n";
        $f->count if $rounds % 2;
        $f->remove_many(\@mine) == @mine or die "my items are gone\n";
        $rounds++;
    }
}

for my $others (1, 3) {
    unlink $path;
    my $f = $CLASS->new($path, @PLAN);
    my $fh = handle_on($path);
    $f->add_many(\@kept);
    my @other = map {
        my $i = $_;
        spawn(sub { other($_[0], $i % 2 ? $CLASS->new($path, @PLAN) : $f, $i) });
    } 1 .. $others;

    my (@wrong, %at);
    my ($slowest, $held) = (0, 0);
    for my $round (1 .. $ROUNDS / 2) {
        my $progress = "$dir/progress";
        my $say = progress_on($progress);
        my $c = spawn(sub {
            my ($me) = @_;
            my $n = 0;
            $me->tell('on');
            while (1) {
                $f->add_many(\@batch);
                say_done($say, ++$n);
                $f->remove_many(\@batch);
                say_done($say, ++$n);
            }
        });
        $c->hear(5);
        if ($round % 2) { $c->kill_holding($fh, rand 0.0006) }
        else { Time::HiRes::sleep(rand 0.008); $c->kill }
        $c->reap if $round % 4;    # some stay zombies for a while
        $held++ if held_by($fh) == $c->pid;

        # Each finishes its turn, which needs the lock several times.
        my $began = Time::HiRes::time();
        $_->tell('pause') for @other;
        for my $i (0 .. $#other) {
            my ($word) = $other[$i]->hear(2);
            push @wrong, "round $round: other $i is not going on"
                unless ($word || '') eq 'quiet';
        }
        my $took = Time::HiRes::time() - $began;
        $slowest = $took if $took > $slowest;
        last if @wrong;
        $c->reap unless $round % 4;

        my $done  = said_done($progress);
        my $model = ($done % 2 ? $top : $base)->clone;
        my $table = substr $f->to_bytes, $CBFProc::AT{table};
        my @step  = $done % 2 ? @down : @up;
        my $n = steps_to($model, $table, @step);
        push @wrong, "round $round: no item boundary after call $done" if $n < 0;
        $at{ $n == 0 ? 'before' : $n == @step ? 'after' : 'inside' }++;

        my ($set, $full, $sum) = tally_of($table);
        my $s = $f->stats;
        push @wrong, "round $round: tallies $s->{counters_set} $s->{saturated} "
            . "$s->{items}, counted $set $full $sum"
            if $s->{counters_set} != $set || $s->{saturated} != $full
            || abs($s->{items} - $sum / $f->hashes) > 1e-6;

        # Back to the start for the next one.
        last if $n < 0;
        $f->clear;
        $f->add_many(\@kept);
        $_->tell('go') for @other;
    }
    is(scalar @wrong, 0, "$others other(s): exact, and nobody waits")
        or diag("seed $seed", map { "\n$_" } @wrong);
    note(sprintf '%d other(s): %s; held %d times; slowest %.3f s', $others,
        join(', ', map { "$_ $at{$_}" } sort keys %at), $held, $slowest);
    cmp_ok($f->stats->{recovered}, '>', 0, 'some work was taken over');
    $_->tell('stop') for @other;
    my @r = map { $_->result(10) } @other;
    is(scalar(grep { $_->{ok} } @r), $others, 'the others saw nothing wrong')
        or diag(map { outcome($_) . "\n" } @r);
    undef $f;
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, 'and nothing is left locked');
}

done_testing;
