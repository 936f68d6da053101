# merge: sums, the ceiling, itself, other backings, frozen sources, and what it
# refuses.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;

# A filter and its model with the same items, so often each.
sub pair {
    my ($f, $model, %times) = @_;
    for my $item (sort keys %times) {
        $_->add_many([($item) x $times{$item}]) for $f, $model;
    }
    return ($f, $model);
}

# ---- every backing into every other ------------------------------------

my @geometry = (100, 0.01);
my $n = 0;
my %make = (
    anonymous => sub { $CLASS->new(undef, @geometry) },
    file      => sub { $CLASS->new("$dir/" . ++$n, @geometry) },
    memfd     => sub { $CLASS->new_memfd('merge', @geometry) },
    'from fd' => sub {
        my $memfd = $CLASS->new_memfd('merge', @geometry);
        $CLASS->new_from_fd($memfd->memfd);
    },
    'from bytes' => sub {
        $CLASS->new_from_bytes($CLASS->new(undef, @geometry)->to_bytes);
    },
);
for my $into (sort keys %make) {
    for my $from (sort keys %make) {
        my ($f, $model) = pair($make{$into}->(), CBFModel->new(@geometry),
            both => 3, mine => 1, high => 9, top => 15);
        my ($g, $twin) = pair($make{$from}->(), CBFModel->new(@geometry),
            both => 2, theirs => 4, high => 8, top => 1);
        my @none = $f->merge($g);
        $model->merge($twin);
        is(scalar @none, 0, "$from into $into: merge returns nothing");
        table_is($f, $model, '... the sums, up to 15');
        table_is($g, $twin, '... and the source is as before');
        stats_are($f, $model, '... with the right statistics');
    }
}

# ---- itself ------------------------------------------------------------

for my $kind (sort keys %make) {
    my ($f, $model) = pair($make{$kind}->(), CBFModel->new(@geometry),
        map { ("times $_" => $_) } 1 .. 15);
    for (1 .. 5) {
        my @none = $f->merge($f);
        is(scalar @none, 0, "$kind into itself returns nothing");
        $model->merge($model);
        table_is($f, $model, '... and doubles every counter, up to 15');
        stats_are($f, $model, '... with the right statistics');
    }
    is(scalar(grep { $f->count_of("times $_") != 15 } 1 .. 15), 0,
        "$kind: in the end all is at the top");
}
{
    my ($f, $model) = pair($make{file}->(), CBFModel->new(@geometry), x => 3);
    my $second = $CLASS->new($f->path, @geometry);
    $f->merge($second);
    $model->merge($model);
    table_is($f, $model, 'two handles of one file: the same doubling');
}

# ---- a large table -----------------------------------------------------

# 2**18 counters, 128 KiB: several of whatever units the work is done in.  The
# tables are made as bytes, so that every value meets every other, everywhere.
{
    my @large = (20_000, 0.01);
    my $seed  = 1601;
    srand $seed;
    my @side;
    for my $density (0.3, 0.9) {
        my $model = CBFModel->new(@large);
        $_ = rand() < $density ? int rand 16 : 0 for @{ $model->{counter} };
        my $bytes = $CLASS->new(undef, @large)->to_bytes;
        substr $bytes, 16768, length $model->bytes, $model->bytes;
        push @side, [$CLASS->new_from_bytes($bytes), $model];
    }
    my ($f, $model) = @{ $side[0] };
    stats_are($f, $model, "a large random table (seed $seed): stats");
    for my $round (1, 2) {
        my ($g, $twin) = @{ $side[1] };
        $f->merge($g);
        $model->merge($twin);
        table_is($f, $model, '... merged with another');
        stats_are($f, $model, '... the statistics');
        is("@{ $f->histogram }", "@{ $model->histogram }", '... the histogram');
    }
    $f->merge($f);
    $model->merge($model);
    table_is($f, $model, '... merged with itself');
    stats_are($f, $model, '... the statistics');
    $_->clear for $f, $model;
    table_is($f, $model, '... cleared');
    stats_are($f, $model, '... the statistics');
}

# ---- capacity and rate may differ --------------------------------------

# 1000 * 7 / ln 2 and 1600 * 7 / ln 2 both need 16384 counters; 0.011 is still
# k = 7 and so is 0.006.
{
    my ($f, $model) = pair($CLASS->new(undef, 1000, 0.011),
        CBFModel->new(1000, 0.011), a => 2);
    my ($g, $twin) = pair($CLASS->new(undef, 1600, 0.006),
        CBFModel->new(1600, 0.006), b => 3);
    $f->merge($g);
    $model->merge($twin);
    table_is($f, $model, 'another capacity and rate, the same geometry');
    is($f->capacity . ' ' . $f->fp_rate, '1000 0.011', 'the target keeps its own');
}

# ---- frozen sources ----------------------------------------------------

{
    my ($g, $twin) = pair($make{file}->(), CBFModel->new(@geometry), a => 2, b => 1);
    my $open = $CLASS->new($g->path, @geometry);
    $g->freeze;
    my $ro = $CLASS->new_readonly($g->path);
    for my $source (['its frozen handle', $g],
        ['a handle open before the freeze', $open], ['a read-only handle', $ro]) {
        my ($what, $from) = @$source;
        my ($f, $model) = pair($make{anonymous}->(), CBFModel->new(@geometry),
            a => 1);
        $f->merge($from);
        $model->merge($twin);
        table_is($f, $model, "from $what");
        croaks('merge', qr/frozen|read-only/, sub { $from->merge($f) },
            '... but not into it');
        croaks('merge', qr/frozen|read-only/, sub { $from->merge($from) },
            '... not even itself');
    }
}

# ---- refused -----------------------------------------------------------

{
    my ($f, $model) = pair($CLASS->new(undef, 1000, 0.01),
        CBFModel->new(1000, 0.01), kept => 2);
    for my $case (['other counters', 2000, 0.01], ['other probes', 1000, 0.02],
        ['both', 10, 0.5]) {
        my ($what, @other) = @$case;
        my $g = $CLASS->new(undef, @other);
        my ($m, $k) = ($g->counters, $g->hashes);
        croaks('merge', qr/geometry mismatch/, sub { $f->merge($g) }, $what);
        my $error = error_of(sub { $f->merge($g) });
        for my $number (16384, 7, $m, $k) {
            like($error, qr/(?<!\d)$number(?!\d)/, "... naming $number");
        }
        table_is($f, $model, '... and nothing has changed');
        is($g->stats->{counters_set}, 0, '... on either side');
    }
    stats_are($f, $model, 'the statistics neither');
}

done_testing;
