# Forked workers that share one filter, anonymous, in a file or in a memfd, each
# doing its own fixed work: the table that comes out is the model's byte by byte,
# and so are the tallies.  The work is such that its order does not matter.
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
my @PLAN  = (8000, 0.01);
my $WORKERS = 4;
watchdog(60);

my $dir = File::Temp->newdir;
my %make = (
    anonymous => sub { $CLASS->new(undef, @PLAN) },
    file      => sub { $CLASS->new("$dir/shared.cbf", @PLAN) },
    memfd     => sub { $CLASS->new_memfd('shared', @PLAN) },
);

# Half of the workers use a handle of their own, where that is possible.
my %own = (
    anonymous => sub { $_[0] },
    file      => sub { $CLASS->new("$dir/shared.cbf", @PLAN) },
    memfd     => sub {
        my ($f, $parent) = @_;
        open my $fh, '+<', "/proc/$parent/fd/" . $f->memfd or die "open: $!";
        return $CLASS->new_from_fd(fileno $fh);
    },
);

my @common = map { "common-$_" } 1 .. 40;

sub own_items { my ($i) = @_; return map { "worker-$i-$_" } 1 .. 200 }

# The work of one worker on a filter or on its model.
sub work {
    my ($f, $i, $other) = @_;
    my @mine = own_items($i);
    $f->add($_) for @mine;
    $f->add_many([@mine[0 .. 99], @common]);
    $f->remove($_) for @mine[0 .. 49];
    $f->remove($_), $f->add($_) for @common;
    $f->remove_many([@mine[50 .. 99], @mine[150 .. 199]]);
    $f->add_many([]);
    $other->add_many([map { "merged-$i-$_" } 1 .. 50]);
    $f->merge($other);
    $f->remove("never added by $i");
    return;
}

# The highest that any counter can stand at any time.
{
    package Local::AddsOnly;
    our @ISA = 'CBFModel';
    sub remove { }
    sub remove_many { }
}
my $most = Local::AddsOnly->new(@PLAN);
work($most, $_, CBFModel->new(@PLAN)) for 0 .. $WORKERS - 1;
cmp_ok((sort { $b <=> $a } @{ $most->{counter} })[0], '<', 14,
    'nothing can be saturated, so order is free');

for my $kind (sort keys %make) {
    my $f = $make{$kind}->();
    my $model = CBFModel->new(@PLAN);
    $_->add_many([map { "before-$_" } 1 .. 100]) for $f, $model;

    my $parent = $$;
    my @r = together($WORKERS, 15, sub {
        my ($i) = @_;
        my $mine = $i % 2 ? $own{$kind}->($f, $parent) : $f;
        work($mine, $i, $CLASS->new(undef, @PLAN));
        return scalar grep { !$mine->contains($_) }
            (own_items($i))[100 .. 149], @common;
    });
    is(outcome($r[$_]), 'returned 0', "$kind: worker $_ finds all it added")
        for 0 .. $#r;
    work($model, $_, CBFModel->new(@PLAN)) for 0 .. $WORKERS - 1;

    is($f->contains("never added by $_"), 0, "$kind: a removal found nothing")
        for 0 .. $WORKERS - 1;

    my $image = $f->to_bytes;
    ok(substr($image, $CBFProc::AT{table}) eq $model->bytes,
        "$kind: the counters are the model's");
    if ($kind eq 'file') {
        ok(table_of("$dir/shared.cbf") eq $model->bytes,
            "$kind: ... and so are the file's");
    }
    my ($got, $want) = ($f->stats, $model->stats);
    for my $key (qw(items counters_set saturated count ops fill_ratio)) {
        is($got->{$key}, $want->{$key}, "$kind: stats $key");
    }
    is($got->{recovered}, 0, "$kind: nobody died");
    is_deeply($f->histogram, $model->histogram, "$kind: histogram");
}

# The same to the last unit where every worker hits the same counters all the
# time: one item, added and removed by all.
for my $kind (sort keys %make) {
    unlink "$dir/shared.cbf";
    my $f = $make{$kind}->();
    my $parent = $$;
    my @r = together(3, 15, sub {
        my ($i) = @_;
        my $mine = $i % 2 ? $own{$kind}->($f, $parent) : $f;
        for (1 .. 3000) {
            $mine->add('hot');
            $mine->remove('hot');
        }
        $mine->add('hot') for 1 .. $i + 1;
        return 'done';
    });
    is(join('; ', map { outcome($_) } @r), join('; ', ('returned done') x 3),
        "$kind: three processes on one item");
    is($f->count_of('hot'), 6, "$kind: no update was lost");
    is($f->stats->{ops}, 3 * 6000 + 6, "$kind: no call was lost");
    is($f->stats->{items}, 6, "$kind: nor in the tallies");
}

done_testing;
