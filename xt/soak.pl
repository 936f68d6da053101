#!/usr/bin/perl
# soak.pl SECONDS: writers, a reader, a scanner, an opener and a forker use one
# file, and once in a while one of the writers is killed; every half second all
# stand still for a moment, and the table is compared, byte by byte, with a model.
#
# Ends with 0 if nothing was ever wrong, and with a line of figures.
# CBF_SOAK_SEED=n, which it prints: the same random numbers again.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/../t/lib";
use Fcntl ();
use File::Temp ();
use Time::HiRes ();
use CBFModel;
use CBFProc;
use CBFStorm;
use Data::CountingBloomFilter::Shared;

my $CLASS   = 'Data::CountingBloomFilter::Shared';
my @PLAN    = (3000, 0.001);
my $WRITERS = 2;
my $SECONDS = shift;
die "usage: soak.pl SECONDS\n"
    if @ARGV || !defined $SECONDS || $SECONDS !~ /\A[1-9][0-9]*\z/;

my $seed = $ENV{CBF_SOAK_SEED} || $$ ^ time;
srand $seed;
$| = 1;
print "# CBF_SOAK_SEED=$seed\n";
watchdog($SECONDS + 300);

my $dir    = File::Temp->newdir;
my $path   = "$dir/soak.cbf";
my $filter = $CLASS->new($path, @PLAN);
my $raw    = handle_on($path);
my @stable = map { "stable-$_" } 1 .. 800;
my @absent = map { "absent-$_" } 1 .. 4000;
my $base   = CBFModel->new(@PLAN);
$_->add_many(\@stable) for $filter, $base;

my %figure = map { $_ => 0 }
    qw(kills with_lock inside rounds checks calls faults);
my $slowest = 0;

sub fault {
    my ($what) = @_;
    $figure{faults}++;
    print "# FAULT after $figure{rounds} rounds: $what\n"
        if $figure{faults} <= 20;
    return;
}

sub check {
    my ($truth, $what) = @_;
    $figure{checks}++;
    fault($what) if !$truth;
    return $truth;
}

# ---- words between the processes: a file each, eight bytes a word ----------

sub words {
    my ($name) = @_;
    open my $fh, '+>:raw', "$dir/$name" or die "$name: $!";
    put($fh, $_, 0) for 0 .. 3;
    return $fh;
}

sub put {
    my ($fh, $at, $n) = @_;
    sysseek $fh, 8 * $at, Fcntl::SEEK_SET() or die "seek: $!";
    my $put = syswrite $fh, pack 'Q', $n;
    die "word: $!" if !$put || $put != 8;
    return;
}

# Each process needs a handle of its own, or they would move one position.
sub own {
    my ($name) = @_;
    open my $fh, '+<:raw', "$dir/$name" or die "$name: $!";
    return $fh;
}

my $TURN   = 0;    # of control: odd, stand still; of the others: stands at
my $DONE   = 1;    # calls finished
my $WRONG  = 2;    # answers that can't be
my $SLOW   = 3;    # the slowest call, in microseconds
my $turn   = words('control');

# ---- what a writer does ------------------------------------------------------

# One period of a writer's work, which ends where it began.
sub period {
    my ($w) = @_;
    my @single = map { "w$w-single-$_" } 1 .. 50;
    my @batch  = map { "w$w-batch-$_" } 1 .. 300;
    my @call   = (
        map({ [add => $_] } @single),
        [add_many => \@batch],
        [add_if_absent => $single[0]],
        [remove_many => \@batch],
        map({ [remove => $_] } reverse @single),
    );
    my (@step, @ends);
    for my $c (@call) {
        my ($method, $what) = @$c;
        my @items = ref $what ? @$what : $what;
        push @step, $method eq 'add_if_absent' ? ()
            : $method =~ /add/ ? add_steps($base, @items)
            : remove_steps($base, @items);
        push @ends, scalar @step;
    }
    return { call => \@call, step => \@step, ends => \@ends };
}

my @period = map { period($_) } 0 .. $WRITERS - 1;

# The body of every worker: one round after the other, but for when all stand.
sub work {
    my ($name, $round) = @_;
    my $me   = own($name);
    my $ctl  = own('control');
    my $done = CBFProc::peek64($me, 8 * $DONE);
    my ($wrong, $slow) = (0, 0);
    while (1) {
        my $now = CBFProc::peek64($ctl, 0);
        if ($now % 2) {
            put($me, $WRONG, $wrong);
            put($me, $SLOW, $slow);
            put($me, $TURN, $now);
            Time::HiRes::sleep(0.001);
            next;
        }
        my $began = Time::HiRes::time();
        $wrong++ if !$round->($done);
        my $took = int 1e6 * (Time::HiRes::time() - $began);
        $slow = $took if $took > $slow;
        put($me, $DONE, ++$done);
    }
}

sub writer {
    my ($w) = @_;
    my $p = $period[$w];
    my $f = $w % 2 ? $filter : $CLASS->new($path, @PLAN);
    my %in;
    return work("writer-$w", sub {
        my ($done) = @_;
        my ($method, $what) = @{ $p->{call}[$done % @{ $p->{call} }] };
        my $got = $f->$method($what);
        return $got == @$what if $method eq 'remove_many';
        return $got == 1 if $method eq 'remove';
        return $got == 0 if $method eq 'add_if_absent';
        return ref $what ? $f->contains_many($what) == @$what
            : $f->contains($what);
    });
}

# ---- the others -------------------------------------------------------------

my %other = (
    reader => sub {
        my ($at) = @_;
        Time::HiRes::sleep(0.0005) if $at % 4 == 0;
        my @some = @stable[map { int rand @stable } 1 .. 50];
        return $filter->contains_many(\@some) == @some
            && $filter->absent(\@some) == 0
            && $filter->contains($stable[ $at % @stable ]);
    },
    scanner => sub {
        my ($at) = @_;
        Time::HiRes::sleep(0.002);
        my $s = $filter->stats;
        my $n = 0;
        $n += $_ for @{ $filter->histogram };
        my $copy  = $CLASS->new_from_bytes(my $image = $filter->to_bytes);
        my $t     = $copy->stats;
        my ($set, $full, $sum)
            = tally_of(substr $image, $CBFProc::AT{table});
        return $s->{items} == int $s->{items} && $s->{items} >= @stable
            && $n == $filter->counters
            && $t->{counters_set} == $set && $t->{saturated} == $full
            && abs($t->{items} - $sum / $filter->hashes) < 1e-6;
    },
    opener => sub {
        my ($at) = @_;
        Time::HiRes::sleep(0.001);
        my $f = $CLASS->new($path, @PLAN);
        my $item = "opener-$at";
        $f->add($item);
        return $f->contains($item) && $f->remove($item) == 1;
    },
    # Its children look, and leave in many ways; some are killed at it.
    forker => sub {
        my ($at) = @_;
        my $pid = fork;
        return 0 if !defined $pid;
        if (!$pid) {
            $filter->stats, $filter->histogram for 1 .. 20;
            undef $filter if $at % 2;
            $filter->count while $filter && $at % 3 == 0;
            POSIX::_exit(0);
        }
        Time::HiRes::sleep(rand 0.004);
        kill 'KILL', $pid if $at % 3 == 0;
        waitpid $pid, 0;
        return $? == 0 || ($? == 9 && $at % 3 == 0);
    },
);

# ---- the rounds --------------------------------------------------------------

my %child;
my $now = 0;

sub start {
    my ($name, $code) = @_;
    $child{$name} = spawn(sub { srand($$ ^ $seed); $code->() },
        limit => $SECONDS + 200);
    return;
}

sub all_stand {
    put($turn, 0, ++$now);
    for my $name (sort keys %child) {
        my $fh = own($name);
        check(until_true(20, sub { CBFProc::peek64($fh, 8 * $TURN) == $now }),
            "$name does not come to a halt") or next;
        my ($wrong, $slow) = map { CBFProc::peek64($fh, 8 * $_) } $WRONG, $SLOW;
        check(!$wrong, "$name: $wrong answers were wrong");
        put($fh, $WRONG, 0);
        $slowest = $slow / 1e6 if $name !~ /forker/ && $slow / 1e6 > $slowest;
    }
    return;
}

# What the writers have said they finished, as a model; and the table's place
# within the call that the killed one was at.
sub compare {
    my ($killed) = @_;
    my $model = $base->clone;
    my $table = table_of($raw);
    my @next;
    for my $w (0 .. $WRITERS - 1) {
        my $p    = $period[$w];
        my $done = CBFProc::peek64(own("writer-$w"), 8 * $DONE)
            % @{ $p->{call} };
        my $from = $done ? $p->{ends}[$done - 1] : 0;
        my $to   = $p->{ends}[$done];
        my @step = $from ? @{ $p->{step} }[0 .. $from - 1] : ();
        _apply($model, @step);
        @next = @{ $p->{step} }[$from .. $to - 1]
            if defined $killed && $killed == $w;
    }
    my $n = steps_to($model, $table, @next);
    check($n >= 0, 'the table is not what the model says') or die
        "nothing after this could be compared\n";
    my $s = $filter->stats;
    my ($set, $full, $sum) = tally_of($table);
    check($s->{counters_set} == $set && $s->{saturated} == $full
        && abs($s->{items} - $sum / $filter->hashes) < 1e-6,
        'the totals are not those of a recount');
    check($filter->contains_many(\@stable) == @stable, 'an item is missing');
    my $yes  = $filter->contains_many(\@absent);
    my $rate = $s->{estimated_fp_rate};
    check($yes <= @absent * $rate + 6 * sqrt(@absent * $rate) + 3,
        "$yes wrong answers of " . @absent . " at a rate of $rate");
    return ($n, scalar @next);
}

sub _apply {
    my ($model, @step) = @_;
    for my $s (@step) {
        my ($by, $at) = @$s;
        $model->{counter}[$_] += $by for @$at;
    }
    return;
}

# Finishes the call that a killed writer was at, of which n items are done.
sub finish {
    my ($w, $n) = @_;
    my $fh   = own("writer-$w");
    my $p    = $period[$w];
    my $done = CBFProc::peek64($fh, 8 * $DONE);
    my ($method, $what) = @{ $p->{call}[$done % @{ $p->{call} }] };
    my @items = ref $what ? @$what : $what;
    my @rest  = @items[$n .. $#items];
    if ($method =~ /\A(?:add|add_many)\z/) { $filter->add_many(\@rest) }
    elsif ($method =~ /remove/) {
        check($filter->remove_many(\@rest) == @rest, 'an item was lost');
    }
    put($fh, $DONE, $done + 1);
    return;
}

words($_) for map({ "writer-$_" } 0 .. $WRITERS - 1), sort keys %other;
for my $w (0 .. $WRITERS - 1) { start("writer-$w", sub { writer($w) }) }
for my $name (sort keys %other) {
    start($name, sub { work($name, $other{$name}) });
}

my $end   = Time::HiRes::time() + $SECONDS;
my $spoke = Time::HiRes::time();
while (Time::HiRes::time() < $end) {
    my $killed;
    Time::HiRes::sleep(0.2 + rand 0.3);
    if (rand() < 0.9) {
        $killed = int rand $WRITERS;
        my $c = delete $child{"writer-$killed"};
        my $held = $c->kill_holding($raw, rand 0.0003, 0.2);
        $c->reap;
        $figure{kills}++;
        $figure{with_lock}++ if held_by($raw) == $c->pid;
        Time::HiRes::sleep(0.05);
    }
    all_stand();
    my ($n, $of) = compare($killed);
    $figure{rounds}++;
    if (defined $killed) {
        $figure{inside}++ if $n > 0 && $n < $of;
        my $w = $killed;
        finish($w, $n);
        start("writer-$w", sub { writer($w) });
    }
    put($turn, 0, ++$now);
    if (Time::HiRes::time() - $spoke > 60) {
        print "# $figure{rounds} rounds, $figure{kills} kills, ",
            "$figure{faults} faults\n";
        $spoke = Time::HiRes::time();
    }
}

all_stand();
$figure{calls} += CBFProc::peek64(own($_), 8 * $DONE) for keys %child;
for my $c (values %child) { $c->kill; $c->reap }
undef $filter;
my $r = in_time(10, sub {
    my $f = $CLASS->new($path, @PLAN);
    return $f->contains_many(\@stable) == @stable ? 'all' : 'some';
});
check(outcome($r) eq 'returned all', 'at the end: ' . outcome($r));
check(lock_words(bytes_of($path)) !~ /[^\0]/, 'a lock was left at the end');
printf "# figures: seconds=%d %s slowest_ms=%.1f\n", $SECONDS,
    join(' ', map { "$_=$figure{$_}" } sort keys %figure), $slowest * 1000;
exit($figure{faults} ? 1 : 0);
