# Items and arguments whose code destroys, replaces or uses the filter that they
# are given to.  The call then gives the right answer or croaks clearly; it never
# crashes, and never leaves a lock behind.  Arrays are 81's.
use strict;
use warnings;
use Test::More;
use FindBin;
use POSIX ();
use lib "$FindBin::Bin/lib";
use CBFMagic;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (1000, 0.001);
watchdog(60);

my @method = qw(add remove contains count_of add_if_absent);
my @batch  = qw(add_many remove_many contains_many count_of_many present absent
    add_if_absent_many);

# What a call may answer for the present item 'here' on the filter it was made
# on; all of it is 1 but for these.
my %answer = (add => 0, add_if_absent => 0, absent => 0, add_many => 0,
    add_if_absent_many => 0);

sub argument {
    my ($how, $text, $code) = @_;
    return CBFMagic::item($text, $code) if $how eq 'overloaded';
    tie my $x, 'CBFMagic::Tied', $text, $code;
    return \$x;
}

# Calls a method with an item (or a batch of three) that runs $code; the filter
# is in $_[0] of the code, so that it can be undefined.
my $memory = $CLASS->new_memfd('the same memory', @PLAN);

sub attempt {
    my ($method, $how, $code) = @_;
    my $is_batch = grep { $_ eq $method } @batch;
    return in_time(5, sub {
        $memory->clear;
        $memory->add($_) for qw(here before after);
        my $f = $CLASS->new_from_fd($memory->memfd);
        my $run = sub { $code->($f) };
        my $item = argument($how, 'here', $run);
        my $value;
        my $ok = eval {
            $value = !$is_batch ? $f->$method($how eq 'tied' ? $$item : $item)
                : $how eq 'tied' ? do {
                    my @a = ('before', undef, 'after');
                    tie $a[1], 'CBFMagic::Tied', 'here', $run;
                    scalar $f->$method(\@a);
                }
                : scalar $f->$method(['before', $item, 'after']);
            1;
        };
        my $error = $@;
        # whatever happened, the memory is unlocked and sound
        $memory->add('still');
        $memory->remove('still') == 1 or die "remove\n";
        my ($set, $full, $sum)
            = tally_of(substr $memory->to_bytes, $CBFProc::AT{table});
        my $s = $memory->stats;
        die "tallies\n" if $s->{counters_set} != $set
            || abs($s->{items} * $memory->hashes - $sum) > 1e-3;
        return $ok ? ('answer', $value) : ('error', $error);
    });
}

sub expected {
    my ($method) = @_;
    my $is_batch = grep { $_ eq $method } @batch;
    my $one = exists $answer{$method} ? $answer{$method} : 1;
    return $is_batch ? 3 * $one : $one;
}

# name => [code, pattern of an error that is as good as the answer]
my $gone = qr/\A\Q$CLASS\E->\w+: .*(?:destroyed|not a)/;
my %evil = (
    'undefines the variable' => [sub { undef $_[0] }, $gone],
    'destroys the filter' => [sub { $_[0]->DESTROY }, $gone],
    'destroys it twice and undefines' =>
        [sub { $_[0]->DESTROY; $_[0]->DESTROY; undef $_[0] }, $gone],
    'puts another filter there' =>
        [sub { $_[0] = $CLASS->new(undef, @PLAN) }, $gone],
    'puts a string there' => [sub { $_[0] = 'a string' }, $gone],
    'reblesses it' => [sub { bless $_[0], 'Local::Elsewhere' }, $gone],
    'adds to the filter' => [sub { $_[0]->add('inner'); $_[0]->remove('inner') }],
    'uses every part of it' => [sub {
        my ($f) = @_;
        $f->add_many(['inner', 'inner']);
        $f->remove_many(['inner', 'inner']);
        $f->stats;
        $f->count;
        $f->histogram;
        $f->contains_many(['inner']);
        $f->to_bytes;
        my $other = $CLASS->new(undef, @PLAN);
        $f->merge($other);
    }],
    'nests' => [sub {
        my ($f) = @_;
        my $depth = 0;
        my $nest;
        $nest = sub {
            return if ++$depth > 20;
            $f->add(CBFMagic::item('deep', $nest));
            $f->remove('deep');
        };
        $nest->();
    }],
    'forks, the child leaves' => [sub {
        my $pid = fork;
        POSIX::_exit(0) if defined $pid && !$pid;
        waitpid $pid, 0;
        die "child: $?" if $?;
    }],
    'localises everything' => [sub {
        local ($@, $!, $_) = ('', 5, 'topic');
        eval { die 'inner' };
    }],
);

for my $how (qw(overloaded tied)) {
    for my $name (sort keys %evil) {
        my ($code, $error) = @{ $evil{$name} };
        my @wrong;
        for my $method (@method, @batch) {
            my $r = attempt($method, $how, $code);
            my ($kind, $value) = @{ $r->{list} };
            next if $r->{ok} && $kind eq 'answer' && $value == expected($method);
            next if $r->{ok} && $kind eq 'error' && $error && $value =~ $error;
            push @wrong, "$method: " . outcome($r);
        }
        is("@wrong", '', "an $how item that $name");
    }
}

# Errors of the item's own code come through as they are, and nothing was done.
for my $how (qw(overloaded tied)) {
    my @wrong;
    for my $method (@method, @batch) {
        my $ops = $memory->stats->{ops};
        my $r = attempt($method, $how, sub { die "on purpose\n" });
        push @wrong, "$method: " . outcome($r)
            if outcome($r) ne "returned error on purpose\n";
        my $object = bless {}, 'Local::Error';
        my $f = $CLASS->new_from_fd($memory->memfd);
        my $item = CBFMagic::item('x', sub { die $object });
        my $is_batch = grep { $_ eq $method } @batch;
        eval { $f->$method($is_batch ? ['a', $item] : $item) };
        push @wrong, "$method: not the error object" if ref $@ ne 'Local::Error';
    }
    is("@wrong", '', "an $how item that dies: its error, and no lock");
}

# The filter is frozen, cleared or unlinked by the item's code.
{
    for my $method (qw(add remove add_if_absent)) {
        my $f = $CLASS->new(undef, @PLAN);
        $f->add('here');
        my $item = CBFMagic::item('here', sub { $f->freeze });
        my $error = eval { $f->$method($item); 1 } ? 'none' : $@;
        like($error, qr/\A\Q$CLASS\E->$method: .*(?:frozen|read-only)/,
            "$method of an item that freezes the filter");
        is($f->count_of('here'), 1, '... changed nothing');
    }
    my $f = $CLASS->new(undef, @PLAN);
    is($f->add(CBFMagic::item('x', sub { $f->add('x'); $f->clear })), 1,
        'add of an item that clears the filter');
    is($f->count_of('x') . $f->stats->{items}, '11', '... counts it afterwards');
}

# A child that returns from the item's code: both go on with the call.
{
    my $r = in_time(10, sub {
        my $f = $CLASS->new_from_fd($memory->memfd);
        $memory->clear;
        my $pid;
        my $got = $f->add(CBFMagic::item('both', sub { $pid = fork }));
        POSIX::_exit($got) if !$pid;
        waitpid $pid, 0;
        return join ' ', $got + ($? >> 8), $f->count_of('both'),
            $memory->stats->{items};
    });
    is(outcome($r), 'returned 1 2 2', 'an item that forks is added by both');
}

# The only reference to the filter is an element of what the code frees, or of
# the arguments themselves.
{
    my %case = (
        'its array' => sub {
            my @a = ($CLASS->new(undef, @PLAN));
            $a[0]->add('here');
            return $a[0]->contains(CBFMagic::item('here', sub { @a = () }));
        },
        'its hash' => sub {
            my %h = (f => $CLASS->new(undef, @PLAN));
            $h{f}->add('here');
            return $h{f}->contains_many(
                ['here', CBFMagic::item('here', sub { %h = () })]) / 2;
        },
        'the argument list' => sub {
            my @a = ($CLASS->new(undef, @PLAN));
            $a[0]->add('here');
            push @a, CBFMagic::item('here', sub { @a = (1 .. 50) });
            return $CLASS->can('contains')->(@a);
        },
        'a closure' => sub {
            my $code;
            { my $f = $CLASS->new(undef, @PLAN); $f->add('here');
              $code = sub { $f->contains($_[0]) } }
            return $code->(CBFMagic::item('here', sub { undef $code }));
        },
        'merge, its source' => sub {
            my $f = $CLASS->new(undef, @PLAN);
            my @a = ($CLASS->new(undef, @PLAN));
            $a[0]->add('here');
            tie my $t, 'CBFMagic::Tied', $a[0], sub { @a = () };
            $f->merge($t);
            return $f->contains('here');
        },
        'merge, its target' => sub {
            my @f = ($CLASS->new(undef, @PLAN));
            my $g = $CLASS->new(undef, @PLAN);
            tie my $t, 'CBFMagic::Tied', $g, sub { @f = () };
            $f[0]->merge($t);
            return 1;
        },
        'itself untied' => sub {
            my $f = $CLASS->new(undef, @PLAN);
            $f->add('here');
            my $x;
            tie $x, 'CBFMagic::Tied', 'here', sub { untie $x };
            return $f->contains($x);
        },
    );
    for my $name (sort keys %case) {
        my $r = in_time(5, $case{$name});
        ok($r->{ok} ? $r->{list}[0] == 1
            : $r->{done} && $r->{error} =~ /\A\Q$CLASS\E->|not a|freed/,
            "code that frees $name") or diag(outcome($r));
    }
}

done_testing;
