# Counters changed by a release that keeps no tallies, at rest, after ours wrote
# its own: `ops` has moved, so what ours had recorded counts for nothing.  However
# far ops moved and however the filter is opened next, the figures are those of
# the counters.
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
my @PLAN  = (400, 0.01);
my %AT    = %CBFProc::AT;
watchdog(60);

my $dir = File::Temp->newdir;
my @ours   = map { "ours-$_" } 1 .. 200;
my @theirs = map { "theirs-$_" } 1 .. 50;

# What an older release does with its calls: counters and ops, nothing else.
sub older_release {
    my ($fh, $model, $calls) = @_;
    $model->_add($_) for @theirs;
    poke($fh, $AT{table}, $model->bytes);
    $model->{ops} += $calls;
    poke64($fh, $AT{ops}, $model->{ops});
    return;
}

sub figures_are {
    my ($f, $model, $name) = @_;
    my ($got, $want) = ($f->stats, $model->stats);
    my $text = sub { join ' ', map { "$_ $_[0]{$_}" }
        qw(items counters_set saturated count ops) };
    is($text->($got), $text->($want), "$name: stats");
    is($f->count, $model->count, "$name: count");
    is_deeply($f->histogram, $model->histogram, "$name: histogram");
    $f->add('once more');
    $model->add('once more');
    is($text->($f->stats), $text->($model->stats), "$name: ... and after an add");
    return;
}

for my $calls (1, 2, 3, 50) {
    for my $how (qw(new new_from_fd memfd)) {
        my $path = "$dir/$how-$calls.cbf";
        my $model = CBFModel->new(@PLAN);
        my $f = $how eq 'memfd' ? $CLASS->new_memfd('handed over', @PLAN)
            : $CLASS->new($path, @PLAN);
        my $fh = handle_on($how eq 'memfd' ? $f->memfd : $path);
        $_->add_many(\@ours), $_->add('x'), $_->remove('x') for $f, $model;
        is($f->stats->{items}, 200, "$how: ours has its tallies");
        undef $f;    # at rest

        older_release($fh, $model, $calls);
        $f = $how eq 'new' ? $CLASS->new($path, @PLAN)
            : $CLASS->new_from_fd(fileno $fh);
        figures_are($f, $model, "$how, $calls calls of an older release");
    }
}

# A frozen file whose counters were changed before the seal.
for my $calls (1, 2) {
    my $path = "$dir/frozen-$calls.cbf";
    my $model = CBFModel->new(@PLAN);
    {
        my $f = $CLASS->new($path, @PLAN);
        $_->add_many(\@ours) for $f, $model;
    }
    my $fh = handle_on($path);
    older_release($fh, $model, $calls);
    poke($fh, $AT{seal}, "\1");
    my $ro = $CLASS->new_readonly($path);
    my ($got, $want) = ($ro->stats, $model->stats);
    is("$got->{$_}", "$want->{$_}", "frozen after $calls calls: $_")
        for qw(items counters_set saturated count);
    is($ro->verify, undef, 'and there is no checksum to compare with');
}

# A record that an older release's calls have outdated is no longer one.
for my $kind (1 .. 3) {
    my $path = "$dir/record-$kind.cbf";
    my $model = CBFModel->new(@PLAN);
    {
        my $f = $CLASS->new($path, @PLAN);
        $_->add_many(\@ours) for $f, $model;
    }
    my $fh = handle_on($path);
    poke($fh, $AT{ours}, pack 'Q8', 1, 2, 0, 0, 3, 4, 5, 1 << 3 | $kind);
    older_release($fh, $model, 1);
    my $f = $CLASS->new($path, @PLAN);
    ok(table_of($fh) eq $model->bytes, "an outdated record of kind $kind");
    figures_are($f, $model, "kind $kind");
}

done_testing;
