# Signal handlers that use the filter that is in use, or that end a call which
# waits for the lock: nothing is counted twice or lost, and a call that is ended
# so has done nothing.
use strict;
use warnings;
use Test::More;
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (4000, 0.001);
watchdog(60);

sub table { substr $_[0]->to_bytes, $CBFProc::AT{table} }

# A timer's handler works on the filter between, and during, other calls.
{
    my $r = in_time(20, sub {
        my $f = $CLASS->new(undef, @PLAN);
        my $model = CBFModel->new(@PLAN);
        my ($ticks, $depth) = (0, 0);
        local $SIG{ALRM} = sub {
            $ticks++;
            $f->add("tick-$ticks");
            $f->stats;
            $f->add_many(['handler', 'handler']);
            $f->remove_many(['handler', 'handler']) == 2 or die "lost\n";
        };
        my @batch = map { "batch-$_" } 1 .. 500;
        Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.001, 0.001);
        for my $n (1 .. 400) {
            $f->add("item-$n");
            $f->count;
            $f->add_many(\@batch);
            $f->remove_many(\@batch);
        }
        Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0, 0);
        $model->add("item-$_") for 1 .. 400;
        $model->add("tick-$_") for 1 .. $ticks;
        return join ' ', $ticks > 0 ? 'ticks' : 'none',
            table($f) eq $model->bytes ? 'exact' : 'differs',
            $f->stats->{items} - 400 - $ticks,
            $f->stats->{ops} - 400 * 3 - 3 * $ticks;
    });
    is(outcome($r), 'returned ticks exact 0 0', 'a handler that uses the filter');
}

# A stopped process holds the lock.
sub with_stopped_holder {
    my ($code) = @_;
    my $f = $CLASS->new_memfd('held', 20_000, 1e-9);
    my $fh = handle_on($f->memfd);
    my @batch = map { "batch-$_" } 1 .. 15_000;
    my $c = spawn(sub {
        my ($me) = @_;
        $f->add_many(\@batch), $f->remove_many(\@batch) until $me->told;
        return 'done';
    });
    $c->stop_holding($fh) or return fail('the lock could not be caught');
    $code->($f, $c);
    $c->tell('enough');
    $c->cont;
    is(outcome($c->result(10)), 'returned done', 'the holder finished');
    is($f->stats->{items}, 0, '... and nothing was added by those who gave up');
    ok(table($f) !~ /[^\0]/, '... to the last counter');
    return;
}

my %waiting = (
    add         => sub { $_[0]->add('x') },
    add_many    => sub { $_[0]->add_many(['x', 'y']) },
    remove      => sub { $_[0]->remove('x') },
    clear       => sub { $_[0]->clear },
    count       => sub { $_[0]->count },
    to_bytes    => sub { $_[0]->to_bytes },
    histogram   => sub { $_[0]->histogram },
    merge       => sub { $_[0]->merge($_[0]) },
    freeze      => sub { $_[0]->freeze },
);

# A handler that dies ends the wait.
with_stopped_holder(sub {
    my ($f, $c) = @_;
    for my $name (sort keys %waiting) {
        my $r = in_time(4, sub {
            local $SIG{ALRM} = sub { die "enough\n" };
            Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.15);
            my $ok = eval { $waiting{$name}->($f); 1 };
            return $ok ? 'went through' : "ended by $@";
        });
        is(outcome($r), "returned ended by enough\n",
            "$name, waiting: ended by a handler that dies");
    }
    # In one process again and again, with reads in between.
    my $r = in_time(12, sub {
        my $n = 0;
        for (1 .. 6) {
            local $SIG{ALRM} = sub { die "enough\n" };
            Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.03);
            eval { $f->add('x'); 1 } or $n += $@ eq "enough\n";
            $f->contains('x');
        }
        return $n;
    });
    is(outcome($r), 'returned 6', 'six times in a row');
});

# A handler that returns does not: the call goes on waiting, and works.
{
    my $f = $CLASS->new_memfd('wait on', 20_000, 1e-9);
    my $fh = handle_on($f->memfd);
    my @batch = map { "batch-$_" } 1 .. 15_000;
    my $holder = spawn(sub {
        my ($me) = @_;
        $f->add_many(\@batch), $f->remove_many(\@batch) until $me->told;
        return 'done';
    });
    ok($holder->stop_holding($fh), 'the lock is held by a stopped process');
    # A place that has called add before waits in a way of its own.
    my $add = sub { return join ' ', 'got', $_[0]->add($_[1]), 'there' };
    $add->($CLASS->new(undef, 100), $_) for 1 .. 2;
    my @waiter = map {
        my $name = $_;
        spawn(sub {
            my ($me) = @_;
            my $ticks = 0;
            # not local: the last tick may come when the timer has been stopped
            $SIG{ALRM} = sub {
                $f->contains('x');
                $me->tell('tick') if ++$ticks == 5;
            };
            Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.01, 0.01);
            my $got = $name eq 'add' ? $f->add('waited')
                : $name eq 'add again' ? $add->($f, 'again')
                :                        $f->count >= 0;
            Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0, 0);
            return $ticks >= 5 ? $got : "only $ticks ticks";
        });
    } 'add', 'add again', 'count';
    is(($_->hear(15))[0], 'tick', 'five signals, and still waiting')
        for @waiter;
    $holder->tell('enough');
    $holder->cont;
    like(outcome($_->result(10)), qr/\Areturned (?:1|got 1 there)\z/,
        'then it gets the lock') for @waiter;
    is(outcome($holder->result(10)), 'returned done', 'the holder is done');
    is($f->count_of($_), 1, "$_ was added once") for qw(waited again);
    is($f->stats->{items}, 2, 'and nothing else');
}

# The handler of a waiting call works on another filter, and destroys this one.
with_stopped_holder(sub {
    my ($f, $c) = @_;
    my $r = in_time(5, sub {
        my $g = $CLASS->new_from_fd($f->memfd);
        my $other = $CLASS->new(undef, 100);
        local $SIG{ALRM} = sub {
            $other->add('x');
            undef $g;
            die "destroyed\n";
        };
        Time::HiRes::setitimer(Time::HiRes::ITIMER_REAL(), 0.1);
        my $ok = eval { $g->add('x'); 1 };
        return $ok ? 'went through' : $@ . $other->stats->{items};
    });
    is(outcome($r), "returned destroyed\n1",
        'a handler that destroys the filter waited for');
});

done_testing;
