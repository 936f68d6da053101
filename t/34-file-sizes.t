# Large filters: sparse files take the disk space of what is in them, counters
# beyond 2**32 are reached, and what is too large is refused before anything is
# made.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use Time::HiRes ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use CBFXXH3 ();
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;

# 2**33 counters, 4 GiB: more than 32 bits can address, of counters and of bytes.
# k = 3: 1.9e9 * 3 / ln 2 is 8.2e9.
my ($m, $k) = (2**33, 3);
my @geometry = (1_900_000_000, 0.125);
is_deeply($CLASS->geometry(@geometry),
    { counters => $m, hashes => $k, mmap_size => 16768 + $m / 2 },
    'the plan of a large filter');
my $path = "$dir/large.cbf";
my $made = error_of(sub { $CLASS->new($path, @geometry) });

SKIP: {
    skip "no room for a sparse file of 4 GiB here: $made", 1
        if defined $made && $made =~ /No space|File too large|Cannot allocate/;
    is($made, undef, 'a file of 4 GiB') or last;
    is(-s $path, 16768 + $m / 2, '... has its full size');
    cmp_ok(512 * (stat $path)[12], '<', 2**20, '... and takes next to no space');

    my $f     = $CLASS->new($path, @geometry);
    my @items = map { "large $_" } 1 .. 100;
    is($f->add_many(\@items), 100, 'items are added');
    is($f->add_many([(@items) x 2]), 0, '... and again');
    is($f->remove('large 7'), 1, '... and removed');
    is(join(' ', $f->count_of('large 1'), $f->count_of('large 7'),
        $f->contains('small')), '3 2 0', '... and found');

    # Each counter stands where the model says, also beyond 4,294,967,296.
    my (%times, $beyond);
    for my $item (@items) {
        my @at = CBFModel::probes_of(CBFXXH3::xxh3_128($item), $k, $m);
        $times{$_} += $item eq 'large 7' ? 2 : 3 for @at;
        $beyond += grep { $_ > 2**32 } @at;
    }
    cmp_ok($beyond, '>', 50, 'many of their counters lie beyond 2**32');
    open my $raw, '<:raw', $path or die $!;
    my @off;
    for my $at (sort { $a <=> $b } keys %times) {
        sysseek $raw, 16768 + int($at / 2), 0 or die $!;
        sysread $raw, my $byte, 1 or die $!;
        my $got = $at % 2 ? ord($byte) >> 4 : ord($byte) & 15;
        push @off, "counter $at is $got" if $got != $times{$at};
    }
    is("@off", '', 'every counter of theirs holds what it should');
    my $t0 = Time::HiRes::time();
    my $s  = $f->stats;
    is($s->{counters_set}, scalar keys %times, 'stats');
    is($s->{count} . ' ' . $s->{items}, '100 299', '... right');
    undef $f;
    $f = $CLASS->new($path, @geometry);
    is($f->count, 100, 'closed and reopened');
    cmp_ok(Time::HiRes::time() - $t0, '<', limit(2),
        'all that without reading 4 GiB');
    is($f->count_of('large 100'), 3, '... an item is there');
    cmp_ok(512 * (stat $path)[12], '<', 2**24,
        '... with a page for each counter at most');
    at_rest_ok(do { undef $f; head($path) }, 'closed: at rest');
}

# The first bytes, up to the counters.
sub head {
    my ($file) = @_;
    open my $in, '<:raw', $file or die $!;
    sysread $in, my $bytes, 16768 or die $!;
    return $bytes;
}

# Too large.
for my $rate (0.5, 0.01, 1e-300) {
    croaks('new', qr/too large/, sub { $CLASS->new("$dir/huge", 2**39, $rate) },
        "rate $rate: above 2**38 counters");
    ok(!-e "$dir/huge", '... and no file is made');
}

done_testing;
