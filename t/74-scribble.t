# A process scribbles over the header, the slots, the journal and the tallies of
# a filter that others use: their answers may be wrong and their calls may
# croak, but nobody crashes, and nobody waits once the scribbling has ended.
# Damage at rest is 70 to 73.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use Time::HiRes ();
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my %AT    = %CBFProc::AT;
watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my @item = map { "item-$_" } 1 .. 200;
my $seed = 74_010;

my %area = (
    'the geometry'             => [0, 72],
    'the lock words'           => [72, 24],
    'the journal'              => [128, 64],
    'tallies and identity'     => [192, 64],
    'slots and their bitmap'   => [256, 16_512],
    'everything but the table' => [0, 16_768],
);

# Every kind of call; those that croak are no worse than that.
sub use_it {
    my ($f, $n) = @_;
    my $other = $n % 7 ? undef : $CLASS->new(undef, 400, 0.01);
    my @call = (
        sub { $f->add("w$n") },          sub { $f->contains("w$n") },
        sub { $f->remove("w$n") },       sub { $f->add_many(\@item) },
        sub { $f->count_of('item-1') },  sub { $f->remove_many(\@item) },
        sub { $f->stats },               sub { $f->count },
        sub { $f->histogram },           sub { $f->contains_many(\@item) },
        sub { $f->to_bytes },            sub { $f->merge($other) if $other },
        sub { $f->clear if !($n % 11) }, sub { $f->estimated_fp_rate },
        sub { $f->add_if_absent("w$n") },
    );
    eval { $_->(); 1 } || $@ =~ /\A\Q$CLASS\E->/ || die $@ for @call;
    return;
}

for my $name (sort keys %area) {
    my ($from, $bytes) = @{ $area{$name} };
    my $f = $CLASS->new($path, 400, 0.01);
    $f->add_many(\@item);
    my $fh   = handle_on($path);
    my $good = substr bytes_of($fh), 0, $AT{table};
    my $gate = gate();

    my @worker = map {
        my $i = $_;
        spawn(sub {
            my ($me) = @_;
            $gate->wait;
            my $mine = $i % 2 ? $f : $CLASS->new($path, 400, 0.01);
            $me->tell('ready');
            my $n = 0;
            $me->tell('round', $n) while use_it($mine, ++$n), !$me->told;
            return $n;
        })
    } 0 .. 1;
    $gate->open;
    $_->hear(5) for @worker;

    my $scribbler = spawn(sub {
        srand $seed;
        my $mine = handle_on($path);
        my $end  = Time::HiRes::time() + 0.8;
        while (Time::HiRes::time() < $end) {
            for (1 .. 20) {
                my $n = 1 + int rand 8;
                my $at = $from + int rand($bytes - $n + 1);
                poke($mine, $at, pack 'C*', map { int rand 256 } 1 .. $n);
            }
            # Nobody gets anywhere while the words are nonsense.
            poke32($mine, $AT{writer}, 0);
            poke($mine, $AT{seal}, "\0");
            select undef, undef, undef, 0.002;
        }
        return 1;
    });
    my $r = $scribbler->result(10);
    ok($r->{ok}, "$name: scribbled") or diag(outcome($r));

    # As found, and with no lock held: the dust settles.
    poke($fh, 0, $good);
    poke($fh, $AT{writer}, "\0" x 16);
    poke($fh, $AT{slots}, "\0" x 16_512);
    poke($fh, $AT{ours}, "\0" x 128);
    $_->tell('stop') for @worker;
    for my $w (@worker) {
        my $done = $w->result(10);
        ok($done->{ok}, "$name: a worker lived through it")
            or diag(outcome($done), " seed $seed");
    }
    my $after = in_time(10, sub {
        $f->clear;
        $f->add_many(\@item);
        return scalar $f->contains_many(\@item);
    });
    is(outcome($after), 'returned 200', "$name: the filter works afterwards");
    undef $f;
    unlink $path or die "unlink: $!";
}

done_testing;
