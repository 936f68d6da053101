# Processes killed inside clear, merge, scans of the whole table and sync: a begun
# clear is finished, a merge loses nothing, and a scan's lock is nobody's.  Files
# in the making are 65's.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS  = 'Data::CountingBloomFilter::Shared';
my %AT     = %CBFProc::AT;
my @PLAN   = (600_000, 0.01);    # a table of 4 MiB
my $ROUNDS = $ENV{CBF_TEST_KILLS} ? $ENV{CBF_TEST_KILLS} / 4 : 8;
watchdog(90);

my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my $seed = 62_009;
srand $seed;

# Puts a table into a file as an older release would: counters changed, `ops`
# moved, our own words left as they are.
sub put_table {
    my ($fh, $table) = @_;
    poke($fh, $AT{table}, $table);
    poke64($fh, $AT{ops}, peek64($fh, $AT{ops}) + 7);
    return;
}

sub noise {
    my ($bytes) = @_;
    my $block = join '', map { chr int rand 256 } 1 .. 4096;
    return $block x ($bytes / 4096);
}

# Lets the killer look first; nothing depends on it but how often it hits.
sub nap { select undef, undef, undef, 0.001 }

sub not_zero { return $_[0] =~ tr/\0//c }

# Nonzero bytes to 0xff, zero bytes stay.
sub mask { my ($s) = @_; $s =~ tr/\0/\xff/c; return $s }

# The sum of two tables made of one block each, stopping at 15.
sub merged {
    my @sum = (0) x 4096;
    for my $i (0 .. 4095) {
        my ($x, $y) = map { ord substr $_, $i, 1 } @_;
        my ($low, $high) = (($x & 15) + ($y & 15), ($x >> 4) + ($y >> 4));
        $sum[$i] = ($low > 15 ? 15 : $low) | ($high > 15 ? 15 : $high) << 4;
    }
    return pack('C*', @sum) x (length($_[0]) / 4096);
}

sub tallies_wrong {
    my ($s, $k, $table) = @_;
    my ($set, $full, $sum) = tally_of($table);
    return '' if $s->{counters_set} == $set && $s->{saturated} == $full
        && abs($s->{items} * $k - $sum) < 1e-3;
    return "tallies $s->{counters_set} $s->{saturated} $s->{items},"
        . " counted $set $full $sum";
}

my $f  = $CLASS->new($path, @PLAN);
my $fh = handle_on($path);
my $k  = $f->hashes;
my $bytes = $f->counters / 2;
my $full  = noise($bytes) | "\x11" x $bytes;    # no zero byte

# Two seconds for somebody else to get the lock and change something.
sub next_one {
    my ($what) = @_;
    my $r = in_time(2, sub {
        $f->add('the next one');
        $f->remove('the next one');
        return 'on';
    });
    return outcome($r) eq 'returned on' ? '' : "$what: " . outcome($r);
}

# Where the zeros begin; the length of the table if there are none.
sub first_zero {
    my ($table) = @_;
    my $at = index $table, "\0";
    return $at < 0 ? length $table : $at;
}

# clear: the writer fills the table by a merge, from its front to its end, and
# clears it, again and again.  Zeros before what is not zero are a clear that
# nobody finished.
{
    my $source = $CLASS->new("$dir/full.cbf", @PLAN);
    put_table(handle_on("$dir/full.cbf"), $full);
    $source->freeze;
    my (@wrong, %saw);
    for my $round (1 .. 2 * $ROUNDS) {
        $f->clear;
        my $c = spawn(sub {
            $_[0]->tell('on');
            $f->merge($source), $f->clear while 1;
        });
        $c->hear(5);
        Time::HiRes::sleep(0.002 + rand 0.004);
        $c->kill;
        $c->reap;
        my $left = table_of($fh);
        $saw{'killed in clear'}++ if not_zero($left) > first_zero($left);
        my $r = in_time(2, sub { $f->stats });
        push @wrong, outcome($r) unless $r->{ok};
        my $table = table_of($fh);
        my $is = not_zero($table) > first_zero($table) ? 'half cleared'
            : $table eq $full ? 'full' : not_zero($table) ? 'half merged'
            : 'empty';
        $saw{$is}++;
        push @wrong, $is if $is eq 'half cleared';
        push @wrong, grep { length } tallies_wrong($f->stats, $k, $table);
        push @wrong, grep { length } next_one('clear');
    }
    is("@wrong", '', 'clear: all or nothing') or diag("seed $seed");
    note(join ', ', map { "$_ $saw{$_}" } sort keys %saw);
}

# merge: every counter is as it was or as it was to be
{
    my $source = $CLASS->new("$dir/source.cbf", @PLAN);
    my $from = noise($bytes);
    put_table(handle_on("$dir/source.cbf"), $from);
    my $start = noise($bytes) & "\x77" x $bytes;
    my $whole = merged($start, $from);
    my (@wrong, %saw);
    for my $round (1 .. $ROUNDS) {
        put_table($fh, $start);
        $f->stats;
        my $c = spawn(sub { $_[0]->hear; nap(); $f->merge($source); $_[0]->hear });
        $c->tell('now');
        $c->kill_holding($fh, rand 0.0003, 0.3);
        $c->reap;
        my $r = in_time(2, sub { $f->stats });
        push @wrong, outcome($r) unless $r->{ok};
        my $table = table_of($fh);
        my $odd = mask($table ^ $start) & mask($table ^ $whole);
        push @wrong, 'a byte is neither old nor new' if not_zero($odd);
        $saw{ $table eq $start ? 'not begun' : $table eq $whole ? 'done'
            : 'half' }++;
        push @wrong, grep { length } tallies_wrong($f->stats, $k, $table);
        push @wrong, grep { length } next_one('merge');
    }
    is("@wrong", '', 'merge: nothing lost, tallies right') or diag("seed $seed");
    note(join ', ', map { "$_ $saw{$_}" } sort keys %saw);
}

# scans: the dead reader's lock
for my $scan (qw(histogram to_bytes count stats)) {
    put_table($fh, $full);
    my (@wrong, $held);
    for my $round (1 .. $ROUNDS) {
        my $c = spawn(sub { $_[0]->tell('on'); $f->$scan while 1 });
        $c->hear(5);
        Time::HiRes::sleep(rand 0.003);
        $c->kill;
        $c->reap if $round % 2;
        my $slots = substr header_of($fh), $AT{slots}, 16_384;
        my %shared = unpack '(L2 x8)*', $slots;
        $held++ if $shared{ $c->pid };
        push @wrong, grep { length } next_one($scan);
        $c->reap unless $round % 2;
    }
    is("@wrong", '', "$scan: a dead reader holds nobody up");
    note(sprintf '%d of %d died with a shared lock', $held || 0, $ROUNDS);
}

# sync
{
    my @wrong;
    for my $round (1 .. $ROUNDS) {
        my $c = spawn(sub { $_[0]->tell('on'); $f->sync, $f->add('x') while 1 });
        $c->hear(5);
        Time::HiRes::sleep(rand 0.004);
        $c->kill;
        $c->reap;
        push @wrong, grep { length } next_one('sync');
    }
    is("@wrong", '', 'sync: nobody waits');
}

done_testing;
