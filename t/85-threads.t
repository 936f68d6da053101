# Perl threads: a handle cloned into a thread shares the mapping, threads work on
# it side by side, threads end in every way there is, and the mapping goes when
# the last clone goes.
use strict;
use warnings;
no warnings 'portable';
use Config;
BEGIN {
    if (!$Config{useithreads}) {
        print "1..0 # SKIP this perl has no threads\n";
        exit 0;
    }
}
use threads;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (3000, 0.001);
watchdog(90);

# Not an object: each thread would have a clone, and remove the directory.
my $dir  = File::Temp::tempdir(CLEANUP => 1);
my $path = "$dir/threads.cbf";
my %make = (
    anonymous => sub { $CLASS->new(undef, @PLAN) },
    file      => sub { $CLASS->new($path, @PLAN) },
    memfd     => sub { $CLASS->new_memfd('threads', @PLAN) },
);

# Mappings as large as a filter's.
my $size = $CLASS->geometry(@PLAN)->{mmap_size};
my $pages = ($size + 4095) & ~4095;
sub mappings {
    open my $fh, '<', '/proc/self/maps' or die $!;
    return scalar grep {
        /\A([0-9a-f]+)-([0-9a-f]+) rw-s/ && hex($2) - hex($1) == $pages
    } <$fh>;
}

sub table { substr $_[0]->to_bytes, $CBFProc::AT{table} }

sub work {
    my ($f, $i) = @_;
    for my $n (1 .. 200) {
        $f->add("thread-$i-$n");
        $f->add_many(["batch-$i-$n", 'common']) if $n <= 3;
        $f->remove("thread-$i-$n") if $n % 2;
        $f->stats if $n % 50 == 0;
        $f->contains("thread-$i-$n") == ($n % 2 ? 0 : 1) or return "at $n";
    }
    return 'done';
}

my $base = mappings();
for my $kind (sort keys %make) {
    unlink $path;
    my $f = $make{$kind}->();
    is(mappings(), $base + 1, "$kind: one mapping");
    my $model = CBFModel->new(@PLAN);
    my @t = map { my $i = $_; threads->create(sub { work($f, $i) }) } 1 .. 4;
    is(mappings(), $base + 1, "$kind: ... shared by all clones");
    my @got = map { $_->join } @t;
    is("@got", 'done done done done', "$kind: four threads at work");
    for my $i (1 .. 4) {
        $model->add("thread-$i-$_") for grep { $_ % 2 == 0 } 1 .. 200;
        $model->add("batch-$i-$_"), $model->add('common') for 1 .. 3;
    }
    ok(table($f) eq $model->bytes, "$kind: the table is the model's");
    is($f->stats->{items}, $model->stats->{items}, "$kind: so are the tallies");
    undef $f;
    is(mappings(), $base, "$kind: the mapping goes with the last handle");
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, 'file: and no slot is left')
        if $kind eq 'file';
}

# Who outlives whom.
{
    my $f = $CLASS->new(undef, @PLAN);
    $f->add('main');
    my $gate = gate();
    my $t = threads->create(sub {
        sysread $gate->{rd}, my $byte, 1;
        $f->add('thread');
        return join ' ', $f->contains('main'), $f->contains('thread'), mappings();
    });
    undef $f;
    is(mappings(), $base + 1, 'the clone keeps the mapping');
    syswrite $gate->{wr}, 'g';
    is($t->join, '1 1 ' . ($base + 1), '... and uses it');
    is(mappings(), $base, '... and takes it along');
}
{
    my $f = $CLASS->new(undef, @PLAN);
    threads->create(sub { $f->DESTROY; undef $f })->join;
    is($f->add('still here'), 1, 'a thread that destroys its clone');
    is(threads->create(sub {
        my $error = eval { $f->DESTROY; $f->add('x'); 1 } ? 'none' : $@;
        return $error =~ /\A\Q$CLASS\E->add: .*destroyed/ ? 'croaks' : $error;
    })->join, 'croaks', '... has no filter any more');
    $f->DESTROY;
    is(threads->create(sub { eval { $f->add('x'); 1 } ? 'works' : 'croaks' })
        ->join, 'croaks', 'a clone of a destroyed handle is one');
}
{
    my $f = $CLASS->new(undef, @PLAN);
    my $made = threads->create(sub {
        my $g = $CLASS->new(undef, @PLAN);
        $g->add('from a thread');
        $f->merge($g);
        my $inner = threads->create(sub { $g->add('inner'); $g->stats->{items} });
        return $inner->join;
    })->join;
    is($made, 2, 'a filter made in a thread, cloned once more');
    is($f->contains('from a thread'), 1, '... and merged into a cloned one');
    is(mappings(), $base + 1, '... is gone with its thread');
}

# A thread hands its handle back, and dies with one.
{
    my ($f) = threads->create({ context => 'list' }, sub {
        my $g = $CLASS->new(undef, @PLAN);
        $g->add('returned');
        return $g;
    })->join;
    is(ref $f, $CLASS, 'a handle that a thread returns');
    is($f->contains('returned'), 1, '... works here');
    undef $f;
    is(mappings(), $base, '... and leaves no mapping');

    local $SIG{__WARN__} = sub { };
    my $g = $CLASS->new(undef, @PLAN);
    my $t = threads->create(sub { my $h = $CLASS->new(undef, @PLAN); die "on purpose\n" });
    $t->join;
    is($g->add('x'), 1, 'a thread that dies');
    $t = threads->create(sub { my $h = $g; threads->exit });
    $t->join;
    is($g->add('y'), 1, '... or exits');
    undef $g;
    is(mappings(), $base, '... leaves no mapping');
}

# fork in a thread; threads in a forked child.
{
    my $f = $CLASS->new_memfd('mixed', @PLAN);
    my $r = in_time(15, sub {
        my @t = map { my $i = $_; threads->create(sub { work($f, $i) }) } 1 .. 2;
        return join ' ', map { $_->join } @t;
    });
    is(outcome($r), 'returned done done', 'threads in a child');
    my $got = threads->create(sub {
        my $pid = fork;
        if (!$pid) { $f->add('child of a thread'); $f->count; POSIX::_exit(0) }
        waitpid $pid, 0;
        return $?;
    })->join;
    is($got, 0, 'a child of a thread');
    is($f->contains('child of a thread'), 1, '... adds to the filter');
    is($f->stats->{recovered}, 0, '... and nobody was taken for dead');
}

# Detached at exit, and not joined at all.
for my $end ('$t->detach', '1', '$t->detach; undef $f') {
    my @inc = map { "-I$_" } grep { !ref } @INC;
    my $code = "use threads; use $CLASS; my \$f = $CLASS->new(undef, 1000);"
        . 'my $t = threads->create(sub { $f->add($_++), $f->count while 1 });'
        . "\$f->add('main') for 1 .. 200; $end; \$f->add('x') if \$f; exit 0";
    open my $out, '-|', $^X, @inc, '-e',
        "close STDERR; open STDERR, '>', '/dev/null'; $code" or die $!;
    my @said = <$out>;
    close $out;
    is($?, 0, "exit while a thread is at work: $end");
}

is(mappings(), $base, 'no mapping was leaked');
is(scalar threads->list, 0, 'no thread is left');

done_testing;
