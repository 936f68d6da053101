# Every field of the header damaged in turn, in every way to open a filter: a
# clear croak, and the file as it was.  Also header bytes damaged at random,
# where a change that happens to be a valid header may be accepted but must work.
# Sizes are 71's, lock words 72's.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my %AT    = %CBFProc::AT;
watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my @item = map { "item-$_" } 1 .. 300;

{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->add_many(\@item);
}
my $live = bytes_of($path);
{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->freeze;
}
my $sealed = bytes_of($path);
my $m = unpack 'Q', substr $live, $AT{m}, 8;
is(length $live, $AT{table} + $m / 2, 'a sample file of the documented size');
is(unpack('C', substr $sealed, $AT{seal}, 1), 1, 'and a frozen one');

my %open = (
    new            => sub { $CLASS->new($path, 400, 0.01) },
    new_readonly   => sub { $CLASS->new_readonly($path) },
    new_from_fd    => sub { $CLASS->new_from_fd(fileno handle_on($path)) },
    new_from_bytes => sub { $CLASS->new_from_bytes(bytes_of($path)) },
);
my %sample = (
    new => $live, new_readonly => $sealed, new_from_fd => $live,
    new_from_bytes => $live,
);

my $use = sub {
    my ($how) = @_;
    my $f = $open{$how}->();
    my $found = $f->contains_many(\@item);
    $f->stats;
    $f->histogram;
    if (!$f->readonly) {
        $f->add('one more');
        $f->remove('one more');
    }
    return $found;
};

for my $how (sort keys %open) {
    put_bytes($path, $sample{$how});
    my $r = in_time(10, sub { $use->($how) });
    is(outcome($r), 'returned 300', "$how: the sound sample opens and works");
}

my $size  = length $live;
my @field = (
    magic    => 'L', [0, 1, 0x43424653, 0x53464242, 0xffffffff],
    version  => 'L', [0, 1, 3, 0x02000000, 0xffffffff],
    k        => 'L', [0, 33, 255, 0x07000000, 0xffffffff],
    zero     => 'L', [1, 0x80000000],
    m        => 'Q', [0, 1, 32, 63, 65, $m - 1, $m + 2, $m / 2, $m * 2,
                      1 << 39, 1 << 63, ~0],
    mask     => 'Q', [0, $m, $m - 2, 2 * $m - 1, ~0],
    capacity => 'Q', [0],
    fp_rate  => 'd', [0, -0.0, 1, -0.01, 1.5, 9**9**9, -9**9**9,
                      -sin 9**9**9],
    size     => 'Q', [0, $size - 1, $size + 1, $size * 2, ~0],
    slots_at => 'Q', [0, 255, 257, 16384, $size, ~0],
    table_at => 'Q', [0, 16767, 16769, 256, $size, $size - 1, ~0],
);

while (my ($name, $type, $values) = splice @field, 0, 3) {
    for my $value (@$values) {
        for my $how (sort keys %open) {
            my $bytes = $sample{$how};
            my $word  = pack $type, $value;
            substr $bytes, $AT{$name}, length $word, $word;
            put_bytes($path, $bytes);
            my $r = in_time(10, sub { $use->($how) });
            my $label = "$how, $name = $value";
            my $right = !$r->{hung} && $r->{done} && !$r->{ok}
                && $r->{error} =~ /\A\Q$CLASS\E->$how: .*(?:invalid|incomplete|too small)/;
            ok($right, "$label: refused") or diag(outcome($r));
            ok(bytes_of($path) eq $bytes, "$label: the file is as it was");
        }
    }
}

# m, mask and size doubled together agree with one another, not with the file.
for my $how (sort keys %open) {
    for my $factor (0.5, 2, 1 << 20) {
        my $bytes = $sample{$how};
        my $n = $m * $factor;
        substr $bytes, $AT{m}, 16, pack 'QQ', $n, $n - 1;
        substr $bytes, $AT{size}, 8, pack 'Q', $AT{table} + $n / 2;
        put_bytes($path, $bytes);
        my $r = in_time(10, sub { $use->($how) });
        like($r->{error}, qr/\A\Q$CLASS\E->$how: .*(?:invalid|incomplete|too small)/,
            "$how: a consistent header for a table $factor times as long")
            or diag(outcome($r));
        ok(bytes_of($path) eq $bytes, "$how: ... is refused, not repaired");
    }
}

# The seal is a byte of which only 0 and 1 are known: what is not 0 must never
# be taken for mutable.
for my $seal (2, 3, 128, 255) {
    for my $how (sort keys %open) {
        my $bytes = $sample{$how};
        substr $bytes, $AT{seal}, 1, chr $seal;
        put_bytes($path, $bytes);
        my $r = in_time(10, sub {
            my $f = $open{$how}->();
            return $f->readonly || $how eq 'new_from_bytes' ? 'safe' : 'open';
        });
        ok($r->{ok} ? $r->{list}[0] eq 'safe' : $r->{error} =~ /\A\Q$CLASS/,
            "$how: seal $seal is refused, or taken for frozen")
            or diag(outcome($r));
        ok(bytes_of($path) eq $bytes, '... and the file is as it was');
    }
}

# Bytes 0..71 at random.
my $seed = 20_031;
srand $seed;
my @wrong;
for my $round (1 .. 40) {
    my $how   = (sort keys %open)[$round % 4];
    my $bytes = $sample{$how};
    for (1 .. 1 + int rand 3) {
        substr $bytes, int rand 72, 1, chr int rand 256;
    }
    put_bytes($path, $bytes);
    my $r = in_time(10, sub { $use->($how) });
    push @wrong, "round $round, $how: " . outcome($r)
        if $r->{hung} || $r->{sig} || !$r->{done}
        || (!$r->{ok} && $r->{error} !~ /\A\Q$CLASS\E->/);
    push @wrong, "round $round, $how: the file was changed"
        if !$r->{ok} && bytes_of($path) ne $bytes;
}
is("@wrong", '', 'headers damaged at random are refused or work')
    or diag("seed $seed");

done_testing;
