# Journal records with any content in a file at rest: opening never crashes and
# never waits; a record that `ops` has outdated, or of an unknown kind, changes
# nothing; one that speaks of an item touches only that item's counters; a begun
# clear is finished.  What a real crash leaves is the business of 60 and up.
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

my ($ITEM, $BLOCK, $CLEAR) = (1, 2, 3);
my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my @item = map { "item-$_" } 1 .. 300;
my $seed = 73_004;
srand $seed;

sub rand64 {
    my $r = int rand 4;
    return $r == 0 ? int rand 1000 : $r == 1 ? ~0 - int rand 3
        : (int rand 1 << 32) << 32 | int rand 1 << 32;
}

{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->add_many(\@item);
    $f->add('last');
}
my $live  = bytes_of($path);
my $table = table_of($path);
my $k     = unpack 'L', substr $live, $AT{k}, 4;
my $m     = unpack 'Q', substr $live, $AT{m}, 8;
my $ops   = unpack 'Q', substr $live, $AT{ops}, 8;
is($ops, 2, 'two calls so far');
my $dead = do { my $c = spawn(sub { 1 }); my $pid = $c->pid; $c->result(5); $pid };

# counter index => the old values recorded for it
sub recorded {
    my ($lo, $hi, @old) = @_;
    my %at;
    for my $i (0 .. $k - 1) {
        use integer;
        my $pos = ($lo + $i * ($hi | 1)) & ($m - 1);
        push @{ $at{$pos} }, $old[$i / 16] >> 4 * ($i % 16) & 15;
    }
    return \%at;
}

sub nibble {
    my ($bytes, $i) = @_;
    return ord(substr $bytes, $i >> 1, 1) >> 4 * ($i & 1) & 15;
}

# What is wrong with a table that an item's record was undone in, or ''.
sub undone {
    my ($now, $at) = @_;
    for my $i (0 .. $m - 1) {
        my ($was, $is) = (nibble($table, $i), nibble($now, $i));
        if (!$at->{$i}) {
            return "counter $i went from $was to $is" if $was != $is;
        }
        else {
            return "counter $i is $is, recorded was @{ $at->{$i} }"
                unless grep { $_ == $is } @{ $at->{$i} };
        }
    }
    return '';
}

my %open = (
    'new'              => sub { $CLASS->new($path, 400, 0.01) },
    'new, dead writer' => sub { $CLASS->new($path, 400, 0.01) },
    'from_fd'          => sub { $CLASS->new_from_fd(fileno handle_on($path)) },
    'new_from_bytes'   => sub { $CLASS->new_from_bytes(bytes_of($path)) },
);

# Opens, looks, and uses the filter in every way: (table after open, complaint).
sub exercise {
    my ($how) = @_;
    my $f = $open{$how}->();
    my $now = substr $f->to_bytes, $AT{table};
    my $s = $f->stats;
    for my $key (qw(items count fill_ratio estimated_fp_rate)) {
        return ($now, "$key is $s->{$key}") if $s->{$key} =~ /nan|inf/i;
    }
    $f->add($_), $f->remove($_) for 'probe', 'item-7';
    $f->add_many([@item, 'x']);
    $f->remove_many([@item, 'x']);
    $f->histogram;
    my $g = $CLASS->new(undef, 400, 0.01);
    $g->add('merged');
    $f->merge($g);
    return ($now, 'merge') if !$f->contains('merged');
    $f->clear;
    return ($now, 'clear') if substr($f->to_bytes, $AT{table}) =~ /[^\0]/;
    $s = $f->stats;
    return ($now, 'tallies after clear')
        if $s->{counters_set} || $s->{saturated} || $s->{items};
    $f->add('again');
    return ($now, 'items after clear') if $f->stats->{items} != 1;
    return ($now, '');
}

# An older release's file, or one whose lock was left by the dead.
sub sample {
    my ($how, $record) = @_;
    my $bytes = $live;
    substr $bytes, $AT{ours}, 64, $record;
    substr $bytes, $AT{writer}, 4, pack 'L', $CBFProc::HELD + $dead
        if $how =~ /dead|from_fd/;
    return $bytes;
}

my %verdict;
for my $round (1 .. 160) {
    my $how   = (sort keys %open)[$round % 4];
    my $kind  = ($round >> 2) % 8;
    my $stale = int rand 3 == 0;
    my $at    = $stale ? (0, 1, 3, ~0 >> 3)[int rand 4] : $ops;
    my @word  = map { rand64() } 1 .. 7;
    my $state = $at << 3 | $kind;
    put_bytes($path, sample($how, pack 'Q8', @word, $state));
    my $r = in_time(8, sub { exercise($how) });
    my ($now, $wrong) = @{ $r->{list} };
    my $label = "round $round, $how, kind $kind, ops $at, words "
        . join ' ', map { sprintf '%#x', $_ } @word;
    if (!$r->{ok}) { $wrong = outcome($r) }
    elsif ($wrong) { }
    elsif ($stale || $kind == 0 || $kind > $CLEAR || $kind == $BLOCK) {
        $wrong = 'the table was changed' if $now ne $table;
    }
    elsif ($kind == $CLEAR) {
        $wrong = 'the clear was not finished' if $now =~ /[^\0]/;
    }
    else {
        $wrong = undone($now, recorded(@word[0 .. 3]));
    }
    push @{ $verdict{$how} }, "$label: $wrong" if $wrong;
}
for my $how (sort keys %open) {
    is(scalar @{ $verdict{$how} || [] }, 0, "$how: any record is harmless")
        or diag("seed $seed", map { "\n$_" } @{ $verdict{$how} });
}

# Tallies that claim to be right and are not: wrong answers, nothing worse.
my @bad;
for my $round (1 .. 40) {
    my $bytes = $live;
    substr $bytes, $AT{ours} + 64, 32, pack 'Q4', (map { rand64() } 1 .. 3), $ops;
    put_bytes($path, $bytes);
    my $r = in_time(8, sub {
        my $f = $CLASS->new($path, 400, 0.01);
        my @seen = ($f->count, values %{ $f->stats }, $f->estimated_fp_rate);
        push @bad, 'not a number' if grep { defined && /nan|inf/i } @seen;
        $f->remove_many(\@item);
        $f->stats;
        $f->add_many(\@item);
        my $rate = $f->estimated_fp_rate;
        die "estimated_fp_rate $rate\n" if $rate < 0 || $rate > 1;
        my $kept = substr($f->to_bytes, $AT{table}) eq $table;
        $f->clear;
        return ($kept, $f->count, $f->stats->{items});
    });
    push @bad, "round $round: " . outcome($r)
        if outcome($r) ne 'returned 1 0 0';
}
is("@bad", '', 'wrong tallies spoil no table and are gone after clear')
    or diag("seed $seed");

done_testing;
