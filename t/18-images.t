# to_bytes and new_from_bytes: a consistent image in the file format, and
# independent filters from one.
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
my @geometry = (200, 0.01);
my $model = CBFModel->new(@geometry);
my @items = map { "item $_" } 1 .. 150;

sub filled {
    my ($f) = @_;
    $f->add_many(\@items);
    $f->add_many([('often') x 20]);
    $f->remove('item 7');
    return $f;
}
filled($model);

my %make = (
    anonymous => sub { $CLASS->new(undef, @geometry) },
    file      => sub { $CLASS->new("$dir/image.cbf", @geometry) },
    memfd     => sub { $CLASS->new_memfd('image', @geometry) },
);

for my $kind (sort keys %make) {
    my $f     = filled($make{$kind}->());
    my $bytes = $f->to_bytes;
    is(length $bytes, $f->stats->{mmap_size}, "$kind: an image has its size");
    ok(!utf8::is_utf8($bytes), '... in bytes');
    my $h = CBFModel::parse_file($bytes);
    is($h->{table}, $model->bytes, '... with the counters');
    is(join(' ', map { $h->{$_} } qw(magic version hashes counters mask capacity
        fp_rate file_bytes slots_at counters_at seal)),
        join(' ', 0x53464243, 2, 7, 2048, 2047, 200, 0.01, 17792, 256, 16768, 0),
        '... and the header of the format');
    is($h->{ops}, 3, '... and the number of operations');
    at_rest_ok($bytes, '... and no trace of a process');

    my $copy = $CLASS->new_from_bytes($bytes);
    isa_ok($copy, $CLASS, "$kind: a filter from it");
    table_is($copy, $model, '... holds the same');
    stats_are($copy, $model, '... and says so');
    is($copy->path, undef, '... has no path');
    is($copy->memfd, -1, '... and no descriptor');
    is($copy->readonly . $copy->frozen, '00', '... and can be written');
    is($copy->add('only the copy'), 1, '... which');
    is($f->contains('only the copy'), 0, '... does not touch the original');
    $f->add('only the original');
    is($copy->contains('only the original'), 0, '... nor the other way');
    is($CLASS->new_from_bytes($bytes)->to_bytes, $bytes,
        "$kind: an image of a filter from an image is that image");

    # An image is a file.
    my $path = spew("$dir/from-$kind.cbf", $bytes);
    my $opened = $CLASS->new($path, 1);
    table_is($opened, $model, "$kind: written to disk it is a file of the format");
    undef $f;
    undef $opened;
    unlink "$dir/image.cbf";
}

# From frozen filters: an image of one can be written again.
{
    my $f = filled($CLASS->new("$dir/frozen.cbf", @geometry));
    $f->freeze;
    for my $case (['the handle that froze', $f],
        ['a read-only handle', $CLASS->new_readonly("$dir/frozen.cbf")]) {
        my ($what, $frozen) = @$case;
        my $copy = $CLASS->new_from_bytes($frozen->to_bytes);
        is($copy->frozen . $copy->readonly, '00', "$what: the copy is mutable");
        is($copy->add('more'), 1, '... which adds');
    }
    undef $f;
    my $copy = $CLASS->new_from_bytes(slurp("$dir/frozen.cbf"));
    table_is($copy, $model, 'the bytes of a frozen file: the same counters');
    is($copy->frozen, 0, '... mutable');
    is($copy->verify, undef, '... with nothing to compare with');
}

# Files of the older release, in every state, are images too.
for my $name (qw(v2-live v2-killed v2-frozen)) {
    my $copy = $CLASS->new_from_bytes(slurp("$FindBin::Bin/data/$name.cbf"));
    my $s = $copy->stats;
    is(join(' ', map { $s->{$_} } qw(counters_set count ops mmap_size frozen)),
        '3173 504 27 24960 0', "$name as an image");
    is($copy->count_of('twice') . $copy->count_of('saturated'), '215',
        '... with its items');
    is($copy->add('other'), 1, '... to be written');
}

# What is no image.
{
    my $good = $CLASS->new(undef, @geometry)->to_bytes;
    my %bad = (
        'the empty string' => '',
        'too short'        => substr($good, 0, 100),
        'cut by a byte'    => substr($good, 0, -1),
        'a byte too long'  => "$good\0",
        'zeros'            => "\0" x length $good,
        'text'             => 'x' x length $good,
        'a wide string'    => "\x{2603}" . substr($good, 1),
        'another version'  => substr($good, 0, 4) . pack('L', 3) . substr($good, 8),
        'a number'         => 42,
        'a reference'      => [$good],
    );
    for my $what (sort keys %bad) {
        croaks('new_from_bytes', qr/./, sub { $CLASS->new_from_bytes($bad{$what}) },
            "new_from_bytes refuses $what");
    }
    my $up = $good;
    utf8::upgrade($up);
    is(eval { $CLASS->new_from_bytes($up)->counters } || $@, 2048,
        'an image that perl stores upgraded is the same bytes');
    ok(utf8::is_utf8($up) && length $up == length $good, '... and is left so');
}

done_testing;
