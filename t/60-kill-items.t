# A writer is killed at random instants while it adds and removes items, one by
# one and in batches.  Afterwards the next process goes on at once, and the table
# is that of the model after a whole number of items, no fewer than the writer
# has said it finished and no more than its call under way allows.
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
my $seed = 60_017;
srand $seed;

my @kept   = map { "kept-$_" } 1 .. 200;
my @single = map { "single-$_" } 1 .. 60;
my @batch  = map { ("batch-$_") x 2 } 1 .. 750;

my $base = CBFModel->new(@PLAN);
$base->add_many(\@kept);
my $at_most = $base->clone;
$at_most->add_many($_) for \@single, \@batch;
cmp_ok((sort { $b <=> $a } @{ $at_most->{counter} })[0], '<', 15,
    'nothing will be saturated');

# One period of the writer's work: [call, items, model steps]; it ends where it
# began, so where it was killed is known by its place in the period.
my @call = (
    map({ ['add', $_] } @single),
    ['add_many', \@batch],
    ['remove_many', \@batch],
    map({ ['remove', $_] } reverse @single),
);
my (@step, @ends);
for my $call (@call) {
    my ($method, $what) = @$call;
    my @items = ref $what ? @$what : $what;
    push @step, $method =~ /add/ ? add_steps($base, @items)
        : remove_steps($base, @items);
    push @ends, scalar @step;
}
{
    my $round = $base->clone;
    steps_to($round, $base->bytes, @step);
    ok($round->bytes eq $base->bytes, 'a period of the work ends where it began');
}

# The counters after the first n calls of a period: from the nearest of the states
# that are kept, those around the batches.
my %kept_state = (0 => $base);
sub state_after {
    my ($calls) = @_;
    my ($from) = grep { $_ <= $calls } sort { $b <=> $a } keys %kept_state;
    my $model = $kept_state{$from}->clone;
    for my $call (@call[$from .. $calls - 1]) {
        my ($method, $what) = @$call;
        $model->$method($what);
    }
    return $model;
}
$kept_state{$_} = state_after($_) for @single .. @single + 2;

# Works for ever, and says in a file how many calls it has finished.
sub victim {
    my ($f, $say, $start) = @_;
    my $n = $start;
    while (1) {
        my ($method, $what) = @{ $call[$n % @call] };
        $f->$method($what);
        say_done($say, ++$n);
    }
}

my ($all_inside, @where) = (0);
for my $kind (qw(file own memfd anonymous)) {
    my $path = "$dir/$kind.cbf";
    my $f = $kind =~ /file|own/ ? $CLASS->new($path, @PLAN)
        : $kind eq 'memfd'      ? $CLASS->new_memfd('killed', @PLAN)
        :                         $CLASS->new(undef, @PLAN);
    my $fh = $kind eq 'anonymous' ? undef
        : handle_on($kind eq 'memfd' ? $f->memfd : $path);
    my @wrong;
    my ($held, $inside, $slowest) = (0, 0, 0);
    for my $round (1 .. $ROUNDS / 4) {
        $f->clear;
        $f->add_many(\@kept);
        my $start = int rand @call;
        $start = @single - 2 + int rand 4 if $round % 2;    # near the batches
        $f->add_many([map { ref $_->[1] ? @{ $_->[1] } : $_->[1] }
            grep { $_->[0] =~ /add/ } @call[0 .. $start - 1]]) if $start;
        $f->remove_many([map { ref $_->[1] ? @{ $_->[1] } : $_->[1] }
            grep { $_->[0] =~ /remove/ } @call[0 .. $start - 1]]) if $start;

        my $progress = "$dir/progress";
        my $say = progress_on($progress);
        say_done($say, $start);
        my $before = $f->stats->{recovered};
        my $c = spawn(sub {
            my ($me) = @_;
            my $g = $kind eq 'own' ? $CLASS->new($path, @PLAN) : $f;
            $me->tell('on');
            victim($g, $say, $start);
        });
        $c->hear(5);
        if ($fh && $round % 3) { $c->kill_holding($fh, rand 0.0004) }
        else { Time::HiRes::sleep(rand 0.006); $c->kill }
        $c->reap;
        my $caught = $fh && held_by($fh) == $c->pid;
        $held += $caught ? 1 : 0;

        my $began = Time::HiRes::time();
        my $r = in_time(2, sub {
            $f->add('next');
            $f->remove('next');
            return $f->stats->{recovered};
        });
        my $took = Time::HiRes::time() - $began;
        $slowest = $took if $took > $slowest;
        push @wrong, "round $round: " . outcome($r) unless $r->{ok};
        push @wrong, "round $round: recovered stayed at $before"
            if $caught && $r->{ok} && $r->{list}[0] <= $before;

        my $done  = said_done($progress);
        my $model = state_after($done % @call);
        my $from  = $done % @call ? $ends[$done % @call - 1] : 0;
        my $until = $ends[$done % @call];
        my $table = substr $f->to_bytes, $CBFProc::AT{table};
        my $n = steps_to($model, $table, @step[$from .. $until - 1]);
        push @wrong, "round $round: after call $done ($call[$done % @call][0])"
            . ' the table is at no item boundary' if $n < 0;
        $inside++ if $n > 0 && $n < $until - $from;
        push @where, "$kind $done+$n";

        my ($set, $full, $sum) = tally_of($table);
        my $s = $f->stats;
        push @wrong, "round $round: tallies $s->{counters_set} $s->{saturated} "
            . "$s->{items}, counted $set $full $sum"
            if $s->{counters_set} != $set || $s->{saturated} != $full
            || abs($s->{items} - $sum / $f->hashes) > 1e-6;
        push @wrong, "round $round: an item from before is lost"
            if $f->contains_many(\@kept) != @kept;
    }
    is(scalar @wrong, 0, "$kind: whole items, right tallies, nobody waits")
        or diag("seed $seed", map { "\n$_" } @wrong);
    note(sprintf '%s: held %d times, inside a batch %d times, slowest %.3f s',
        $kind, $held, $inside, $slowest);
    cmp_ok($f->stats->{recovered}, '>=', $held,
        "$kind: recovered counts the takeovers");
    $all_inside += $inside;
}
note(join ', ', @where);
cmp_ok($all_inside, '>', 0, 'some were killed inside a batch');

done_testing;
