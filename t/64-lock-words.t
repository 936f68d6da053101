# Lock words of a filter in use patched by hand to what the dead, an older
# release or an accident may leave: nobody hangs and nothing is lost.  Damage at
# rest is 72's.  A holder that cannot be judged costs 30 s and is not tried here.
use strict;
use warnings;
no warnings 'portable';
use Test::More;
use File::Temp ();
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (1000, 0.01);
my %AT    = %CBFProc::AT;
my $HELD  = $CBFProc::HELD;
watchdog(90);

my $dir = File::Temp->newdir;
sub dead_pid { my $c = spawn(sub { 1 }); $c->result(5); return $c->pid }
my $dead = dead_pid();

my ($f, $fh, $kind);
my $model = CBFModel->new(@PLAN);
my $other = $CLASS->new(undef, @PLAN);
$model->add_many([map { "item-$_" } 1 .. 300]);

# Everything that takes the lock, in this order, leaving the table as it was.
my @call = (
    add       => sub { $f->add('x') == 1 },
    stats     => sub { $f->stats->{items} == 301 },
    remove    => sub { $f->remove('x') == 1 },
    count     => sub { $f->count > 250 },
    add_many  => sub { $f->add_many(['y', 'y']) == 1 },
    histogram => sub { $f->histogram->[1] > 0 },
    remove_many => sub { $f->remove_many(['y', 'y']) == 2 },
    to_bytes  => sub { length $f->to_bytes },
    merge     => sub { $f->merge($other); 1 },
    estimated => sub { $f->estimated_fp_rate > 0 },
);

# Each call in turn right after the damage, two seconds each at most.
sub goes_on {
    my ($name, $damage, @only) = @_;
    my @wrong;
    my $slowest = 0;
    for (my $i = 0; $i < @call; $i += 2) {
        my ($method, $code) = @call[$i, $i + 1];
        next if @only && !grep { $_ eq $method } @only;
        $damage->();
        my $began = Time::HiRes::time();
        my $r = in_time(2, sub { $code->() ? 'right' : 'wrong' });
        my $took = Time::HiRes::time() - $began;
        $slowest = $took if $took > $slowest;
        push @wrong, "$method: " . outcome($r)
            if outcome($r) ne 'returned right';
    }
    is("@wrong", '', "$kind, $name: everybody goes on")
        or diag("slowest $slowest s");
    ok(substr($f->to_bytes, $AT{table}) eq $model->bytes,
        "$kind, $name: the table is as before");
    is(held_by($fh), 0, "$kind, $name: the lock is free");
    return;
}

for my $k (qw(file memfd)) {
    $kind = $k;
    my $path = "$dir/words.cbf";
    $f = $kind eq 'file' ? $CLASS->new($path, @PLAN)
        : $CLASS->new_memfd('words', @PLAN);
    $fh = handle_on($kind eq 'file' ? $path : $f->memfd);
    $f->add_many([map { "item-$_" } 1 .. 300]);
    $f->count;

    my $before = $f->stats->{recovered};
    goes_on('a dead holder', sub { poke32($fh, $AT{writer}, $HELD + $dead) });
    cmp_ok($f->stats->{recovered}, '>', $before, "$kind: recovered moved");
    for my $word (1, $dead, $HELD, 0x7fffffff, 0xffffffff) {
        goes_on(sprintf('the word %#x', $word),
            sub { poke32($fh, $AT{writer}, $word) }, qw(add remove stats));
    }
    for my $parked (1, 2, 3, 0x8000, 0x18001, 0x80000000, 0xffffffff) {
        goes_on(sprintf('a stale hint %#x', $parked),
            sub { poke32($fh, $AT{parked}, $parked) }, qw(add remove count));
    }
    goes_on('a dead holder and stale hints', sub {
        poke32($fh, $AT{writer}, $HELD + $dead);
        poke32($fh, $AT{parked}, 2);
    });
    for my $n (1, 3, 0xffffffff) {
        goes_on("$n readers without a slot",
            sub { poke32($fh, $AT{slotless}, $n) },
            qw(add remove add_many remove_many));
    }
    poke32($fh, $AT{slotless}, 0);

    # Slots of the dead, with shared locks, with and without an identity.
    for my $id (0, 1, 0x12345678_9abcdef0, ~0) {
        for my $held (1, 5, 0xffffffff) {
            goes_on(sprintf('a dead reader, id %#x, %u locks', $id, $held), sub {
                poke($fh, $AT{slots} + 16 * 700, pack 'LLQ', $dead, $held, $id);
                poke($fh, $AT{bitmap} + 87, "\x10");
            }, qw(add remove));
        }
    }
    goes_on('many dead readers', sub {
        my $n = 300;
        poke($fh, $AT{slots} + 16 * 100, pack('LLQ', $dead, 1, 0) x $n);
        poke($fh, $AT{bitmap}, "\xff" x 128);
    }, qw(add count remove));
    poke($fh, $AT{slots} + 16 * 100, "\0" x (16 * 300));
    goes_on('a lock held in a free slot', sub {
        poke($fh, $AT{slots} + 16 * 333, pack 'LLQ', 0, 1, 0);
        poke($fh, $AT{bitmap} + 41, "\xff");
    }, qw(add remove));
    poke($fh, $AT{bitmap}, "\0" x 128);
    poke($fh, $AT{slots}, "\0" x 16_384);
}

# The pid of the holder went to another process: its number lives, its identity
# does not.  The identity of a living process is read from its slot.
{
    $kind = 'memfd';
    $f = $CLASS->new_memfd('reuse', @PLAN);
    $fh = handle_on($f->memfd);
    $f->add_many([map { "item-$_" } 1 .. 300]);
    my $c = spawn(sub { $f->count; $_[0]->tell('on'); $_[0]->hear; $f->count });
    $c->hear(5);
    my ($at) = grep { peek32($fh, $AT{slots} + 16 * $_) == $c->pid } 0 .. 1023;
    ok(defined $at, 'a scanning process has a slot');
    my $id = peek64($fh, $AT{slots} + 16 * $at + 8);
    my $older = (($id >> 32) - 1) << 32 | $id & 0xffffffff;
    my $holder = sub {
        poke64($fh, $AT{ours} + 96, $_[0]);
        poke32($fh, $AT{ours} + 104, $c->pid);
        poke32($fh, $AT{writer}, $HELD + $c->pid);
    };
    goes_on('the same pid, another start time', sub { $holder->($older) });
    goes_on('the same pid, another boot', sub { $holder->($id ^ 1) });

    # while the real one, alive, is waited for
    $holder->($id);
    my $w = spawn(sub { $_[0]->tell('on'); $f->add('waited for') });
    $w->hear(5);
    is(scalar(() = $w->hear(1)), 0, 'a living holder keeps its lock');
    is(held_by($fh), $c->pid, '... as the word says');
    $c->kill;
    $c->reap;
    is(outcome($w->result(2)), 'returned 1', '... until it dies');
    $f->remove('waited for');
}

# No slot is free, and all belong to the living: scans do without one.
{
    my $path = "$dir/full.cbf";
    $f = $CLASS->new($path, @PLAN);
    $fh = handle_on($path);
    $f->add_many([map { "item-$_" } 1 .. 300]);
    my $c = spawn(sub { $f->count; $_[0]->tell('on'); $_[0]->hear });
    $c->hear(5);
    my ($at) = grep { peek32($fh, $AT{slots} + 16 * $_) == $c->pid } 0 .. 1023;
    my $id = peek64($fh, $AT{slots} + 16 * $at + 8);
    poke($fh, $AT{slots}, pack('LLQ', $c->pid, 0, $id) x 1024);
    my @r = together(4, 10, sub {
        my ($i) = @_;
        for my $n (1 .. 100) {
            $f->add("w$i");
            $f->stats->{items} > 300 or die "items\n";
            $f->count > 250 or die "count\n";
            length $f->to_bytes or die "image\n" if $n % 20 == 0;
            $f->remove("w$i");
        }
        return 'done';
    });
    is(join('; ', map { outcome($_) } @r), join('; ', ('returned done') x 4),
        'scans and writers while all slots are taken');
    ok(substr($f->to_bytes, $AT{table}) eq $model->bytes,
        '... leave the table as it was');
    is(peek32($fh, $AT{slotless}), 0, '... and counted no slotless reader');
    $c->kill;
    $c->reap;
    is(outcome(in_time(2, sub { $f->count > 250 })), 'returned 1',
        '... and go on when they are all dead');
}

done_testing;
