# Lock words, reader slots, the bitmap and the reserved bytes damaged while
# nobody has the file open: every way to open it does so without waiting, the
# table is as it was, everything works, and the last close leaves zeros.
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
my $HELD  = $CBFProc::HELD;
watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my @item = map { "item-$_" } 1 .. 300;
my $seed = 72_001;
srand $seed;

sub noise { join '', map { chr int rand 256 } 1 .. $_[0] }

{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->add_many(\@item);
}
my $live  = bytes_of($path);
my $table = table_of($path);
{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->freeze;
}
my $sealed = bytes_of($path);
my ($set, $full, $sum) = tally_of($table);
my $k = unpack 'L', substr $live, $AT{k}, 4;

my $dead = do { my $r = spawn(sub { 1 }); my $pid = $r->pid; $r->result(5); $pid };

# [name, offset, bytes]
my @writer = map { [sprintf('writer word %#x', $_), $AT{writer}, pack 'L', $_] }
    1, $dead, $HELD, $HELD + $dead, 0xffffffff, 0x7fffffff, 0xc0000000;
my @living = map { [sprintf('writer word %#x', $_), $AT{writer}, pack 'L', $_] }
    $HELD + 1, $HELD + $$;
my @hints = (
    map({ ["parked $_", $AT{parked}, pack 'L', $_] } 1, 2, 32_768, ~0 >> 32),
    map({ ["drain $_", $AT{drain}, pack 'L', $_] } 1, ~0 >> 32),
    map({ ["slotless readers $_", $AT{slotless}, pack 'L', $_] } 1, 3, ~0 >> 32),
    map({ ["ops $_", $AT{ops}, pack 'Q', $_] } 0, 2, 1 << 62, ~0 - 1, ~0),
);
my @slots = (
    ['a dead reader that holds a lock', $AT{slots}, pack 'LL', $dead, 1],
    ['a dead reader that holds four billion', $AT{slots} + 16 * 1023,
        pack 'LL', $dead, ~0 >> 32],
    ['a lock held in a free slot', $AT{slots} + 32, pack 'LL', 0, 1],
    ['1024 dead readers', $AT{slots}, pack('LLQ', $dead, 1, 0) x 1024],
    ['1024 dead readers and their bits', $AT{slots},
        pack('LLQ', $dead, 1, 0) x 1024 . "\xff" x 128],
    ['all bits of the bitmap', $AT{bitmap}, "\xff" x 128],
    ['slots without bits', $AT{slots}, pack('LLQ', $dead, 0, 0) x 1024],
);
my @foreign = (
    ['slots of pid 1', $AT{slots}, pack('LLQ', 1, 1, 0) x 1024 . "\xff" x 128],
    ['slots of this process', $AT{slots}, pack('LLQ', $$, 1, 0) x 3],
    ['random slots and bits', $AT{slots}, noise(16_384 + 128)],
    ['all words 0xff', $AT{writer}, "\xff" x 24],
    ['slots all 0xff', $AT{slots}, "\xff" x (16_384 + 128)],
);
my @reserved = (
    ['reserved bytes random', $AT{reserved}, noise(31)],
    ['reserved bytes all ones', $AT{reserved}, "\xff" x 31],
    map({ ["random where ours keeps its own, $_", $AT{ours}, noise(128)] }
        1 .. 5),
    ['all ones where ours keeps its own', $AT{ours}, "\xff" x 128],
    ['all zeros where ours keeps its own', $AT{ours}, "\0" x 128],
    map({ ["byte $_ of ours is 1", $AT{ours} + $_, "\1"] } 0, 56, 88, 127),
);

my %open = (
    new            => sub { $CLASS->new($path, 400, 0.01) },
    new_readonly   => sub { $CLASS->new_readonly($path) },
    new_from_fd    => sub { $CLASS->new_from_fd(fileno handle_on($path)) },
    new_from_bytes => sub { $CLASS->new_from_bytes(bytes_of($path)) },
);

# Everything once; the name of the first thing that is wrong, or ''.
sub exercise {
    my ($f) = @_;
    return 'contains_many' if $f->contains_many(\@item) != 300;
    my $s = $f->stats;
    return "counters_set $s->{counters_set}" if $s->{counters_set} != $set;
    return "saturated $s->{saturated}" if $s->{saturated} != $full;
    return "items $s->{items}" if abs($s->{items} - $sum / $k) > 1e-6;
    return 'count' if $f->count != $s->{count};
    return 'histogram' if $f->histogram->[0] != $f->counters - $set;
    if (!$f->readonly) {
        return 'add' if $f->add('fresh item') != 1;
        return 'add_many' if $f->add_many(['fresh item', 'other']) != 1;
        return 'count_of' if $f->count_of('fresh item') != 2;
        return 'remove_many'
            if $f->remove_many(['fresh item', 'fresh item', 'other']) != 3;
    }
    return 'table'
        if substr($f->to_bytes, $AT{table}) ne $table;
    return '';
}

# in: the modes to try this damage in.
sub try_damage {
    my ($damage, @how) = @_;
    my ($name, $at, $with) = @$damage;
    for my $how (@how) {
        my $bytes = $how eq 'new_readonly' ? $sealed : $live;
        substr $bytes, $at, length $with, $with;
        put_bytes($path, $bytes);
        my $r = in_time(3, sub {
            my $f = $open{$how}->();
            my $wrong = exercise($f);
            undef $f;
            return "<$wrong>";
        });
        is(outcome($r), 'returned <>', "$how with $name: all right, in time")
            or diag("seed $seed");
        if ($how eq 'new') {
            ok(lock_words(bytes_of($path)) !~ /[^\0]/,
                "$how with $name: only zeros after the last close");
        }
        ok(table_of($path) eq $table, "$how with $name: the table is kept");
    }
    return;
}

try_damage($_, qw(new new_from_fd new_from_bytes new_readonly))
    for @writer, @hints, @slots;
try_damage($_, qw(new new_from_bytes new_readonly)) for @living, @foreign;
try_damage($_, qw(new new_from_fd new_from_bytes new_readonly)) for @reserved;

done_testing;
