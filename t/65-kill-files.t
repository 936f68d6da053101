# Processes killed while they freeze, save, make or open a file: a frozen or saved
# file is whole or not there, and a file in the making never hangs anybody.
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
my $ROUNDS = $ENV{CBF_TEST_KILLS} ? $ENV{CBF_TEST_KILLS} / 4 : 8;
watchdog(90);

my $dir  = File::Temp->newdir;
my $seed = 65_002;
srand $seed;

# Lets the killer look first; nothing depends on it but how often it hits.
sub nap { select undef, undef, undef, 0.001 }

# freeze: mutable as before, or sealed and whole
{
    my @item = map { "item-$_" } 1 .. 500;
    my (@wrong, %saw);
    for my $round (1 .. $ROUNDS) {
        my $p = "$dir/freeze-$round.cbf";
        my $g = $CLASS->new($p, 20_000, 0.01);
        $g->add_many(\@item);
        my $table = table_of($p);
        my $c = spawn(sub { $_[0]->hear; nap(); $g->freeze; $_[0]->hear });
        $c->tell('now');
        if ($round % 2) { $c->kill_holding(handle_on($p), rand 0.0005, 0.2) }
        else { Time::HiRes::sleep(rand 0.002); $c->kill }
        $c->reap;
        my $r = in_time(2, sub {
            my $done = eval { $g->add('another'); $g->remove('another'); 1 };
            return 'mutable' if $done;
            return $@ =~ /frozen|read-only/ ? 'sealed' : "died: $@";
        });
        my $is = $r->{ok} ? $r->{list}[0] : outcome($r);
        $saw{$is}++;
        push @wrong, $is unless $is =~ /\A(?:mutable|sealed)\z/;
        push @wrong, 'the table was changed' if table_of($p) ne $table;
        push @wrong, 'an item is lost' if $g->contains_many(\@item) != 500;
        if ($is eq 'sealed') {
            my $ro = eval { $CLASS->new_readonly($p) };
            push @wrong, 'sealed, but not whole' unless $ro && $ro->verify;
        }
        else {
            push @wrong, "cannot be frozen: $@" unless eval { $g->freeze; 1 };
        }
        unlink $p;
    }
    is("@wrong", '', 'freeze: whole or not at all') or diag("seed $seed");
    note(join ', ', map { "$_ $saw{$_}" } sort keys %saw);
}

# save: the old file or the new one
{
    my $p = "$dir/published.cbf";
    my $g = $CLASS->new(undef, 20_000, 0.01);
    $g->add('old');
    $g->save($p);
    $g->add('new');
    my (@wrong, %saw);
    for my $round (1 .. $ROUNDS) {
        my $c = spawn(sub { $_[0]->hear; $g->save($p); $_[0]->hear });
        $c->tell('now');
        Time::HiRes::sleep(rand 0.003);
        $c->kill;
        $c->reap;
        my $r = in_time(2, sub {
            my $ro = $CLASS->new_readonly($p);
            return join ' ', $ro->verify, $ro->contains('old'),
                $ro->contains('new');
        });
        my $is = outcome($r);
        $saw{$is}++;
        push @wrong, $is unless $is =~ /\Areturned 1 1 [01]\z/;
    }
    is("@wrong", '', 'save: a whole file at any time');
    note(join ', ', map { "$_: $saw{$_}" } sort keys %saw);
}

# new: a file in the making, and one that is opened and closed all the time
{
    my (@wrong, %saw);
    for my $round (1 .. 2 * $ROUNDS) {
        my $p = "$dir/new-$round.cbf";
        my $c = spawn(sub { $_[0]->tell('on'); my $g = $CLASS->new($p, 2e6) });
        $c->hear(5);
        Time::HiRes::sleep(rand 0.0006);
        $c->kill;
        $c->reap;
        my $was = -e $p ? 'there' : 'not there';
        my $r = in_time(2, sub { $CLASS->new($p, 2e6)->add('x') });
        my $is = outcome($r);
        $is = 'incomplete' if $is =~ /incomplete.*remove it and retry/;
        $saw{"$was: $is"}++;
        push @wrong, $is unless $is =~ /\A(?:returned 1|incomplete)\z/;
        unlink $p;
        push @wrong, 'not after removing it either'
            unless eval { $CLASS->new($p, 2e6)->add('x') };
        unlink $p;
    }
    is("@wrong", '', 'new: a killed maker hinders nobody') or diag("seed $seed");
    note(join ', ', map { "$_ $saw{$_}" } sort keys %saw);

    my $p = "$dir/reopened.cbf";
    my @item = map { "item-$_" } 1 .. 300;
    { my $g = $CLASS->new($p, 2000); $g->add_many(\@item) }
    my $table = table_of($p);
    @wrong = ();
    for my $round (1 .. 2 * $ROUNDS) {
        my @c = map {
            spawn(sub {
                $_[0]->tell('on');
                while (1) { my $g = $CLASS->new($p, 2000); $g->count }
            });
        } 1 .. 2;
        $_->hear(5) for @c;
        Time::HiRes::sleep(rand 0.002);
        $c[0]->kill;
        my $r = in_time(2, sub {
            my $g = $CLASS->new($p, 2000);
            return $g->contains_many(\@item) . ' ' . $g->stats->{items};
        });
        push @wrong, outcome($r) if outcome($r) ne 'returned 300 300';
        $c[1]->kill;
        $_->reap for @c;
        push @wrong, 'the table was changed' if table_of($p) ne $table;
    }
    is("@wrong", '', 'opening and closing: killed at any instant');
}

done_testing;
