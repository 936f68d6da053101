# Files of this release, closed, are valid files of format version 2: every
# field, nothing of any process left, and what an older release expects to find
# zero is zero.
use strict;
use warnings;
use Test::More;
use Config ();
use File::Temp ();
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my $n   = 0;

# Every field of a closed file against the model.
sub file_is {
    my ($path, $model, $label, %other) = @_;
    my $bytes = slurp($path);
    my $h     = CBFModel::parse_file($bytes);
    my %want  = (
        magic       => 0x53464243,
        version     => 2,
        hashes      => $model->{k},
        zero        => 0,
        counters    => $model->{m},
        mask        => $model->{m} - 1,
        capacity    => $model->{capacity},
        fp_rate     => $model->{fp_rate},
        file_bytes  => 16768 + $model->{m} / 2,
        slots_at    => 256,
        counters_at => 16768,
        writer      => 0,
        parked      => 0,
        drain       => 0,
        slotless    => 0,
        ops         => $model->{ops},
        seal        => 0,
        %other,
    );
    my @off = map { "$_ is $h->{$_}, expected $want{$_}" }
        grep { $h->{$_} ne $want{$_} } sort keys %want;
    is("@off", '', "$label: every field of the header");
    is(length $bytes, $want{file_bytes}, '... the size of the file');
    is(substr($bytes, 0, 4), $Config::Config{byteorder} =~ /\A1/ ? 'CBFS' : 'SFBC',
        '... it begins with its magic number');
    at_rest_ok($bytes, '... no trace of a process, reserved bytes zero');
    ok($h->{table} eq $model->bytes, '... and the counters');
}

# ---- one process, several geometries -----------------------------------

for my $geometry ([1, 0.5], [1000, 0.01], [50, 1e-9], [20_000, 0.2], [1, 5e-324]) {
    my $path  = "$dir/" . ++$n;
    my $label = "capacity $geometry->[0], rate $geometry->[1]";
    my $model = CBFModel->new(@$geometry);
    $CLASS->new($path, @$geometry);
    file_is($path, $model, "$label, untouched");
    {
        my $f = $CLASS->new($path, 1, 0.5);
        for my $side ($f, $model) {
            $side->add_many([map { "i$_" } 1 .. 60]);
            $side->add('one') for 1 .. 17;
            $side->remove('i7');
            $side->remove('one');
            $side->merge($side);
        }
        $f->$_ for qw(count stats histogram to_bytes sync);
        $f->contains_many([1 .. 100]);
    }
    file_is($path, $model, "$label, used");
    {
        my $f = $CLASS->new($path, 1, 0.5);
        $_->clear for $f, $model;
        $_->add('last') for $f, $model;
    }
    file_is($path, $model, "$label, cleared and used again");
}

# ---- several handles and processes -------------------------------------

{
    my $path  = "$dir/shared";
    my $model = CBFModel->new(1000, 0.01);
    my $f     = $CLASS->new($path, 1000);
    my $g     = $CLASS->new($path, 1000);
    $f->add('first');
    my @pids;
    for my $child (1 .. 4) {
        my $pid = fork;
        die "fork: $!" unless defined $pid;
        if (!$pid) {
            my $h = $child % 2 ? $f : $CLASS->new($path, 1000);
            $h->add("child $child $_") for 1 .. 50;
            $h->$_ for qw(count stats histogram);
            undef $_ for $f, $g, $h;
            POSIX::_exit(0);
        }
        push @pids, $pid;
    }
    waitpid $_, 0 for @pids;
    $g->add('last');
    undef $f;
    undef $g;
    $model->add($_) for 'first', 'last';
    for my $child (1 .. 4) { $model->add("child $child $_") for 1 .. 50 }
    file_is($path, $model, 'six handles in five processes');
}

# A handle that outlives its file at the path closes the file it has.
{
    my $path  = "$dir/renamed";
    my $model = CBFModel->new(100, 0.01);
    my $f     = $CLASS->new($path, 100);
    $_->add('x') for $f, $model;
    rename $path, "$path.moved" or die $!;
    $_->add('y') for $f, $model;
    is(scalar @{ $f->histogram }, 16, 'a whole-table read on a moved file');
    undef $f;
    file_is("$path.moved", $model, 'renamed while open');
}

# Dying with the handle open is closing it, as global destruction does.
{
    my $path  = "$dir/died";
    my $model = CBFModel->new(100, 0.01);
    my $pid   = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        open STDERR, '>', '/dev/null' or die $!;
        our $kept = $CLASS->new($path, 100);
        $kept->add('x');
        $kept->count;
        die "on purpose\n";
    }
    waitpid $pid, 0;
    $model->add('x');
    file_is($path, $model, 'a process that died of an error');
}

# Killed is not closed; opening and closing it again cleans up.
{
    my $path  = "$dir/killed";
    my $model = CBFModel->new(100, 0.01);
    my $pid   = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        my $f = $CLASS->new($path, 100);
        $f->add('x');
        $f->count;
        kill 'KILL', $$;
    }
    waitpid $pid, 0;
    $model->add('x');
    { my $f = $CLASS->new($path, 100); is($f->contains('x'), 1, 'reopened') }
    file_is($path, $model, 'a killed process, opened and closed again');
}

# Killed while another process has the file open: the last one that closes it
# leaves nothing of the dead either.
{
    my $path  = "$dir/outlived";
    my $model = CBFModel->new(100, 0.01);
    my $f     = $CLASS->new($path, 100);
    my $pid   = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        my $g = $CLASS->new($path, 100);
        $g->add('x');
        $g->histogram;
        kill 'KILL', $$;
    }
    waitpid $pid, 0;
    $model->add('x');
    like(CBFModel::parse_file(slurp($path))->{slots}, qr/[^\0]/,
        'a killed process left its slot');
    undef $f;
    file_is($path, $model, '... which is gone when the last handle is');
}

# ---- frozen ------------------------------------------------------------

{
    my $path  = "$dir/frozen";
    my $model = CBFModel->new(100, 0.01);
    {
        my $f    = $CLASS->new($path, 100);
        my $open = $CLASS->new($path, 100);
        $_->add_many([1 .. 50]) for $f, $model;
        $open->count;
        $f->freeze;
        $open->histogram;
        $f->stats;
    }
    file_is($path, $model, 'frozen', seal => 1);
    my $before = slurp($path);
    { my $ro = $CLASS->new_readonly($path); $ro->stats; $ro->verify; $ro->to_bytes }
    ok(slurp($path) eq $before, 'reading it changes not a byte');
}

# ---- copies ------------------------------------------------------------

# Copied while open, with a slot taken: the copy opens at once and is clean.
{
    my $path  = "$dir/hot";
    my $model = CBFModel->new(100, 0.01);
    my $f     = $CLASS->new($path, 100);
    $_->add_many([1 .. 50]) for $f, $model;
    $f->histogram;
    spew("$dir/copy", slurp($path));
    is(guarded(2, sub { $CLASS->new("$dir/copy", 100)->add('x') })->{out}, '1',
        'a copy made while the original was open can be written');
    $model->add('x');
    file_is("$dir/copy", $model, '... and is at rest after it');
}

# A file of the other byte order fails at the magic number.
{
    my $path = "$dir/swapped";
    { my $f = $CLASS->new($path, 100); $f->add('x'); $f->freeze }
    my $bytes = slurp($path);
    substr $bytes, 0, 4, reverse substr $bytes, 0, 4;
    spew($path, $bytes);
    for my $method (qw(new new_readonly)) {
        croaks($method, qr/invalid counting Bloom filter file/,
            sub { $CLASS->$method($path, $method eq 'new' ? 100 : ()) },
            "$method: the other byte order");
    }
}

done_testing;
