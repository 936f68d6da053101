# A process that holds the write lock is stopped in the middle of a batch.  Point
# reads go on as if nothing were; whoever needs the lock waits, for it is alive,
# and goes on when it does; nobody takes the lock from it.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (20_000, 1e-9);    # many probes, so that a batch is long
watchdog(60);

my $dir  = File::Temp->newdir;
my @kept = map { "kept-$_" } 1 .. 200;
my @none = map { "none-$_" } 1 .. 200;
my @batch = map { "batch-$_" } 1 .. 20_000;
my $empty = CBFModel->new(@PLAN);

for my $kind (qw(file memfd)) {
    my $path = "$dir/$kind.cbf";
    my $f = $kind eq 'file' ? $CLASS->new($path, @PLAN)
        : $CLASS->new_memfd('stopped', @PLAN);
    my $fh = handle_on($kind eq 'file' ? $path : $f->memfd);
    my $model = $empty->clone;
    $_->add_many(\@kept) for $f, $model;

    my $writer = spawn(sub {
        my ($me) = @_;
        my $n = 0;
        until ($me->told) {
            $f->add_many(\@batch);
            $f->remove_many(\@batch);
            $n++;
        }
        return $n;
    });
    ok($writer->stop_holding($fh), "$kind: stopped while it holds the lock");
    is(held_by($fh), $writer->pid, '... as the lock word says');

    # Those who must not wait.
    my %read = (
        contains => sub { scalar grep { $f->contains($_) } @kept },
        count_of => sub { scalar grep { $f->count_of($_) == 1 } @kept },
        contains_many => sub { scalar $f->contains_many(\@kept) },
        count_of_many => sub { scalar $f->count_of_many(\@kept) },
        present  => sub { scalar $f->present(\@kept) },
        absent   => sub { scalar $f->absent([@kept, @none]) },
    );
    for my $name (sort keys %read) {
        my $r = in_time(2, $read{$name});
        is(outcome($r), 'returned 200', "$kind: $name does not wait");
    }
    my $r = in_time(2, sub { $read{$_}->() for keys %read; 'here' });
    is(outcome($r), 'returned here', "$kind: again and again");
    if ($kind eq 'file') {
        $r = in_time(2, sub {
            my $g = $CLASS->new($path, @PLAN);
            return scalar $g->contains_many(\@kept);
        });
        is(outcome($r), 'returned 200', 'file: nor does opening it');
    }
    else {
        $r = in_time(2, sub {
            my $g = $CLASS->new_from_fd($f->memfd);
            return scalar $g->contains_many(\@kept);
        });
        is(outcome($r), 'returned 200', 'memfd: nor does opening it');
    }

    # Those who must.
    my $other = $CLASS->new(undef, @PLAN);
    $other->add('merged');
    my %wait = (
        add      => sub { $f->add('waited for') },
        remove   => sub { $f->remove('kept-200') },
        count    => sub { $f->count > 0 },
        stats    => sub { $f->stats->{items} > 0 },
        to_bytes => sub { length $f->to_bytes },
        merge    => sub { $f->merge($other); 1 },
    );
    my %child = map {
        my $code = $wait{$_};
        $_ => spawn(sub { $_[0]->tell('here'); $code->() });
    } keys %wait;
    $_->hear(5) for values %child;
    my $end = Time::HiRes::time() + 1.2;
    my @early;
    for my $name (sort keys %child) {
        my $left = $end - Time::HiRes::time();
        push @early, $name if () = $child{$name}->hear($left > 0 ? $left : 0);
    }
    is("@early", '', "$kind: nobody else gets the lock meanwhile");
    is(held_by($fh), $writer->pid, '... which is still its own');

    $writer->tell('enough');
    $writer->cont;
    for my $name (sort keys %child) {
        my $r = $child{$name}->result(10);
        ok($r->{ok} && $r->{list}[0], "$kind: $name goes on afterwards")
            or diag(outcome($r));
    }
    my $done = $writer->result(10);
    ok($done->{ok}, "$kind: and so did the writer") or diag(outcome($done));
    $model->add($_) for 'waited for', 'merged';
    $model->remove('kept-200');
    ok(substr($f->to_bytes, $CBFProc::AT{table}) eq $model->bytes,
        "$kind: the table is the model's");
    my $s = $f->stats;
    is($s->{items}, 201, "$kind: and so are the tallies");
    is($s->{recovered}, 0, "$kind: nothing was taken over");
    is(held_by($fh), 0, "$kind: the lock is free");
}

# Stopped and continued all the time, as a debugger or a shell does.
{
    my $f = $CLASS->new_memfd('stop and go', 2000, 0.01);
    my $model = CBFModel->new(2000, 0.01);
    my @child = map {
        my $i = $_;
        spawn(sub {
            my ($me) = @_;
            my $n = 0;
            until ($me->told) {
                $f->add("w$i"), $f->count, $f->remove("w$i") for 1 .. 20;
                $n++;
            }
            $f->add("w$i");
            return $n;
        });
    } 0 .. 2;
    for my $n (1 .. 60) {
        my $c = $child[$n % 3];
        $c->stop;
        Time::HiRes::sleep(0.012) if $n % 10 == 0;
        $c->cont;
    }
    $_->tell('enough') for @child;
    my @r = map { $_->result(10) } @child;
    is(scalar(grep { $_->{ok} } @r), 3, 'three that were stopped and continued')
        or diag(map { outcome($_) . "\n" } @r);
    $model->add("w$_") for 0 .. 2;
    ok(substr($f->to_bytes, $CBFProc::AT{table}) eq $model->bytes,
        'left the table as the model says');
    is($f->stats->{recovered}, 0, 'and were never taken for dead');
}

done_testing;
