# Holders that died and are not yet waited for; all processes killed at one
# instant, after which a new one opens the file or the memfd: it does so at once
# and finds whole items and right tallies.
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

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (3000, 0.001);
watchdog(90);

my $dir  = File::Temp->newdir;
my $seed = 63_005;
srand $seed;
my @batch = map { "batch-$_" } 1 .. 8000;

# Zombies.
for my $kind (qw(file memfd)) {
    my $path = "$dir/zombie.cbf";
    my $f = $kind eq 'file' ? $CLASS->new($path, @PLAN)
        : $CLASS->new_memfd('zombie', @PLAN);
    my $fh = handle_on($kind eq 'file' ? $path : $f->memfd);
    $f->add('kept');
    my $held = 0;
    my @dead;
    for my $round (1 .. 6) {
        my $c = spawn(sub { $f->add_many(\@batch), $f->clear while 1 });
        my $before = $f->stats->{recovered};
        $c->kill_holding($fh, rand 0.0004);
        ok($c->zombie, "$kind: killed and not waited for") if $round == 1;
        my $caught = held_by($fh) == $c->pid;
        $held++ if $caught;
        my @r = map { $_->result(2) } map {
            my $n = $_;
            spawn(sub { $f->add("next-$n") if $n; $f->stats->{recovered} });
        } 0 .. 2;
        is(scalar(grep { $_->{ok} } @r), 3,
            "$kind: three others go on beside the zombie")
            or diag(map { outcome($_) . "\n" } @r);
        cmp_ok($r[2]{list}[0], '>', $before, "$kind: recovered moved")
            if $caught;
        push @dead, $c;
    }
    cmp_ok($held, '>', 0, "$kind: the lock was held by a zombie ($held of 6)");
    $_->reap for @dead;
}

# All at once.  Each adds items of its own, one by one, and says how far it is.
my $N = 4;
my @own = map { my $i = $_; [map { "own-$i-$_" } 1 .. 3000] } 0 .. $N - 1;

sub workers {
    my ($open) = @_;
    my @say = map { progress_on("$dir/progress-$_") } 0 .. $N - 1;
    my @c = map {
        my $i = $_;
        spawn(sub {
            my ($me) = @_;
            my $f = $open->();
            $me->tell('on');
            for my $n (0 .. $#{ $own[$i] }) {
                $f->add($own[$i][$n]);
                say_done($say[$i], $n + 1);
                $f->stats if $n % 50 == $i;
            }
            $me->hear;
        });
    } 0 .. $N - 1;
    $_->hear(10) for @c;
    return @c;
}

# Whether the table is what the workers said, each with its next item or not.
sub explained {
    my ($f) = @_;
    my $model = CBFModel->new(@PLAN);
    my @next;
    for my $i (0 .. $N - 1) {
        my $done = said_done("$dir/progress-$i");
        $model->add($_) for @{ $own[$i] }[0 .. $done - 1];
        push @next, $own[$i][$done] if $done < @{ $own[$i] };
    }
    my $table = substr $f->to_bytes, $CBFProc::AT{table};
    for my $mask (0 .. 2**@next - 1) {
        my $try = $model->clone;
        $try->add($next[$_]) for grep { $mask >> $_ & 1 } 0 .. $#next;
        return 1 if $try->bytes eq $table;
    }
    return 0;
}

sub tallies_right {
    my ($f) = @_;
    my ($set, $full, $sum) = tally_of(substr $f->to_bytes, $CBFProc::AT{table});
    my $s = $f->stats;
    return $s->{counters_set} == $set && $s->{saturated} == $full
        && abs($s->{items} - $sum / $f->hashes) < 1e-6;
}

for my $round (1 .. 5) {
    my $path = "$dir/all-$round.cbf";
    my @c = workers(sub { $CLASS->new($path, @PLAN) });
    Time::HiRes::sleep(rand 0.01);
    kill 'KILL', map { $_->pid } @c;
    $_->reap for @c;
    my $r = in_time(2, sub {
        my $f = $CLASS->new($path, @PLAN);
        my $s = $f->stats;
        $f->add('new'), $f->remove('new');
        return 'opened';
    });
    is(outcome($r), 'returned opened', "round $round: a new process opens it");
    my $f = $CLASS->new($path, @PLAN);
    ok(explained($f), '... and finds whole items') or diag("seed $seed");
    ok(tallies_right($f), '... and right tallies');
    undef $f;
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, '... and leaves no lock behind');
}

# Killed while all of them are in long batches, so that one surely holds.
for my $round (1 .. 4) {
    my $path = "$dir/batch-$round.cbf";
    my $made = $CLASS->new($path, @PLAN);
    $made->add('kept');
    undef $made;
    my @c = map {
        spawn(sub {
            my ($me) = @_;
            my $f = $CLASS->new($path, @PLAN);
            $me->tell('on');
            $f->add_many(\@batch), $f->remove_many(\@batch) while 1;
        });
    } 1 .. 3;
    $_->hear(10) for @c;
    my $fh = handle_on($path);
    $c[0]->kill_holding($fh, rand 0.0005);
    kill 'KILL', map { $_->pid } @c;
    $_->reap for @c;
    note(held_by($fh) ? 'the lock was held' : 'the lock was free');
    my $r = in_time(2, sub {
        my $f = $CLASS->new($path, @PLAN);
        return join ' ', $f->contains('kept'), tallies_right($f) ? 1 : 0,
            $f->add('after'), held_by($fh);
    });
    is(outcome($r), 'returned 1 1 1 0', "round $round: killed in batches");
}

# A memfd that only a descriptor keeps alive.
for my $round (1 .. 4) {
    my $f = $CLASS->new_memfd('kept', @PLAN);
    my $fh = handle_on($f->memfd);
    my $fd = fileno $fh;
    undef $f;
    my @c = workers(sub { $CLASS->new_from_fd($fd) });
    Time::HiRes::sleep(rand 0.01);
    kill 'KILL', map { $_->pid } @c;
    $_->reap for @c;
    my $r = in_time(2, sub {
        my $g = $CLASS->new_from_fd($fd);
        $g->stats;
        $g->add('new'), $g->remove('new');
        return 'opened';
    });
    is(outcome($r), 'returned opened', "round $round: a memfd of the dead");
    my $g = $CLASS->new_from_fd($fd);
    ok(explained($g), '... holds whole items') or diag("seed $seed");
    ok(tallies_right($g), '... and right tallies');
}

done_testing;
