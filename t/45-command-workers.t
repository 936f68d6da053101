# cbf with several processes: the result, and the order of what is printed, is
# that of one; and none of them is left when one is killed, a signal comes, the
# reader goes or something fails.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Temp ();
use IO::Compress::Gzip ();
use POSIX ();
use Test::More;
use CBFCommand;
use CBFProc ();
use CBFTest;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Input;

watchdog(150);

my $dir  = File::Temp->newdir;
my $seed = 45_001;
srand $seed;

# Several processes begin to work when this has been read.
my $ENOUGH = 600_000;

# Half of the items are in; at this rate, and so many, chance plays no part.
my @PLAN = (100_000, 1e-9);
my $f = "$dir/f.cbf";

# A line as often as the name says how long they are.
my %text = (
    short  => join('', map { int(rand 1e7) . "\n" } 1 .. 150_000),
    empty  => "\n" x $ENOUGH . "x\n" x 100_000,
    mixed  => join('', map { 'x' x rand(300) . "$_\n" } 1 .. 8_000),
    long   => join('', map { "$_ " x rand(3_000) . "\n" } 1 .. 300),
    larger => join('', map { "$_ " . 'y' x rand(400_000) . "\n" } 1 .. 12),
    none   => join('', map { int(rand 1e7) . "\n" } 1 .. 150_000) . 'last one',
    single => 'z' x 2_000_000,
    odd    => "a\n" x 300_000 . 'z' x 1_000_000 . "\n" . "b\n" x 100_000,
);

for my $kind (sort keys %text) {
    my $in    = $text{$kind};
    my @lines = split /\n/, $in, -1;
    pop @lines if $in =~ /\n\z/;
    my %known = map { $_ => 1 } grep { /[02468]\z|\A[xyz]/ } @lines;
    my @in  = grep { $known{$_} } @lines;
    my @out = grep { !$known{$_} } @lines;
    spew("$dir/$kind", $in);
    unlink $f;
    my $filter = $CLASS->new($f, @PLAN);
    $filter->add_many([sort keys %known]);

    for my $jobs (1, 2, 5) {
        my $name = "$kind, $jobs processes";
        my $run = cbf('check', '-j', $jobs, $f, "$dir/$kind");
        ok($run->{out} eq lines(@in), "$name: check in order") or diag $seed;
        is("$run->{status}$run->{err}", @in ? 0 : 1, '... ended well');
        next if $jobs == 2;
        $run = cbf(['check', '-vj', $jobs, $f], in => $in);
        ok($run->{out} eq lines(@out), "$name: check -v") or diag $seed;
        $run = cbf('check', '-cj', $jobs, $f, "$dir/$kind", "$dir/$kind");
        is($run->{out}, 2 * @in . "\n", "$name: check -c, twice");
    }

    my $all = $CLASS->new(undef, @PLAN);
    $all->add_many(\@lines);
    $all->save("$dir/expected");
    my $table = substr slurp("$dir/expected"), 16768;
    for my $jobs (1, 3) {
        my $run = cbf('build', '-j', $jobs, '-n', $PLAN[0], '-p', $PLAN[1],
            "$dir/built", "$dir/$kind");
        is("$run->{status}$run->{err}$run->{out}", 0, "$kind, $jobs: build");
        ok(substr(slurp("$dir/built"), 16768) eq $table, '... all items');
    }
    unlink $f;
    $filter = $CLASS->new($f, @PLAN);
    my $run = cbf(['add', '-j', 4, $f], in => $in);
    is("$run->{status}$run->{err}$run->{out}", 0, "$kind: add by 4 processes");
    ok(substr(slurp($f), 16768) eq $table, '... all items, once each');
}

{
    my $in = join '', map { "$_\tname $_\0" } 1 .. 60_000;
    my $filter = $CLASS->new(undef, @PLAN);
    $filter->add_many([map { "name $_" } grep { $_ % 3 } 1 .. 60_000]);
    $filter->save($f);
    my $run = cbf(['check', '-0', '-f2', '-j3', $f], in => $in);
    ok($run->{out} eq join('', map { "$_\tname $_\0" } grep { $_ % 3 }
        1 .. 60_000), 'columns and NUL, 3 processes');
    $run = cbf(['count-of', '-0', '-f2', '-j3', $f], in => $in);
    ok($run->{out} eq join('', map { ($_ % 3 ? 1 : 0) . "\t$_\tname $_\0" }
        1 .. 60_000), 'count-of, 3 processes');
}

# The first of equal lines is the one that is printed, whoever works.
{
    unlink $f;
    my $filter = $CLASS->new($f, @PLAN);
    my @lines = map { 'line ' . int rand 20_000 } 1 .. 100_000;
    my $run = cbf(['add', '--new', '-j3', $f], in => lines(@lines));
    my %seen;
    ok($run->{out} eq lines(grep { !$seen{$_}++ } @lines),
        'add --new, 3 processes') or diag $seed;
}

# ---- whole texts --------------------------------------------------------

# What is uncompressed is read by one process, and is more than a text.
{
    my $all = $CLASS->new(undef, @PLAN);
    my @lines = split /\n/, $text{none};
    $all->add_many(\@lines) for 1 .. 4;
    my $in = "$text{none}\n" x 4;
    cmp_ok(length $in, '>', 4 * 1024 * 1024, 'more than a text');
    IO::Compress::Gzip::gzip(\$in, "$dir/large.gz", -Level => 1) or die;
    my $run = cbf('build', '-j3', '-n', $PLAN[0], '-p', $PLAN[1],
        "$dir/built", "$dir/large.gz");
    is("$run->{status}$run->{err}$run->{out}", 0, 'build from it, compressed');
    ok(substr(slurp("$dir/built"), 16768) eq substr($all->to_bytes, 16768),
        '... all items');
}

# More is waited for, but not for ever; the last part would be missed if the
# first were taken as soon as it is there.
for my $patience (0, 20) {
    my $input = 'Data::CountingBloomFilter::Shared::Command::Input';
    pipe my $rd, my $wr or die "pipe: $!";
    syswrite $wr, "a\nb\nc";
    my $pid = $patience ? fork : 0;
    die "fork: $!" if !defined $pid;
    if ($patience && !$pid) {
        select undef, undef, undef, 0.3;
        syswrite $wr, "d\ne";
        POSIX::_exit(0);
    }
    my $buffer = '';
    my %source = (handle => $rd, patience => $patience, share => 8,
        read => sub { sysread $rd, ${ $_[0] }, 100, length ${ $_[0] } });
    my $rest = $input->can('read_items')->(\%source, \$buffer, "\n", 100);
    is("$buffer|$rest", $patience ? "a\nb\ncd\n|e" : "a\nb\n|c",
        "$patience seconds of patience");
    waitpid $pid, 0 if $pid;
}

# ---- several processes that wait for more -------------------------------

my $block = join '', map { "item $_\n" } 1 .. 100_000;

# Starts a command, feeds it until it works with as many processes, and returns
# it with the pipe that it reads and its children.
sub at_work {
    my ($jobs, $args, %opt) = @_;
    pipe my $rd, my $wr or die "pipe: $!";
    my $run = start_cbf($args, in_from => $rd, group => 1, %opt);
    close $rd;
    local $SIG{PIPE} = 'IGNORE';
    CBFProc::until_true(20, sub {
        syswrite $wr, $block, 20_000;
        return children_of($run->{pid}) >= $jobs - 1;
    }) or diag 'it does not start other processes';
    return $run, $wr, children_of($run->{pid});
}

# Nobody of the group is left.
sub all_gone {
    my ($run, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $gone = CBFProc::until_true(10, sub { !kill 0, -$run->{pid} });
    ok($gone, $name);
    kill 'KILL', -$run->{pid} if !$gone;
    return;
}

mkdir "$dir/build" or die;
my $target = spew("$dir/build/target.cbf", 'the old one');
my @build  = ('build', '-j3', '-n', 1000, $target);

# The temporary file is the sign that it has begun.
for my $case (['INT', 2], ['TERM', 15], ['HUP', 1]) {
    my ($name, $number) = @$case;
    my ($run, $wr, @children) = at_work(3, \@build);
    is(scalar @children, 2, "build with 3 processes, SIG$name");
    like(names_in("$dir/build"), qr/\A\.target\.cbf\.\S+ target\.cbf\z/,
        '... has begun');
    kill $name, $run->{pid};
    my $end = CBFCommand::end_of($run);
    is("$end->{signal} $end->{out}$end->{err}", "$number ", '... ends by it');
    is(names_in("$dir/build"), 'target.cbf', '... leaves no half file');
    is(slurp($target), 'the old one', '... and the old one');
    all_gone($run, '... and no process');
}
{
    my ($run, $wr) = at_work(3, \@build);
    kill 'INT', -$run->{pid};    # as a terminal does
    my $end = CBFCommand::end_of($run);
    is("$end->{signal} $end->{out}$end->{err}", '2 ', 'SIGINT to all of them');
    is(names_in("$dir/build"), 'target.cbf', '... leaves no half file');
    all_gone($run, '... and no process');
}
for my $which (0, 1) {
    my ($run, $wr, @children) = at_work(3, \@build);
    kill 'KILL', $children[$which];
    close $wr;
    fails(CBFCommand::end_of($run), qr/process ended by signal 9/,
        'a killed worker fails the build');
    is(names_in("$dir/build"), 'target.cbf', '... leaves no half file');
    is(slurp($target), 'the old one', '... and the old one');
    all_gone($run, '... and no process');
}
{
    my ($run, $wr, @children) = at_work(3, \@build);
    kill 'KILL', $run->{pid};
    CBFCommand::end_of($run);
    close $wr;
    all_gone($run, 'the others leave when the first is killed');
    unlink glob "$dir/build/.*.cbf";
}
{
    local $SIG{HUP} = 'IGNORE';
    my ($run, $wr) = at_work(2, ['build', '-qj2', '-n', 1000, $target]);
    kill 'HUP', -$run->{pid};
    close $wr;
    my $end = CBFCommand::end_of($run);
    is("$end->{status}$end->{signal}$end->{err}", '00',
        'an ignored signal stays ignored');
    ok($CLASS->new_readonly($target)->contains('item 1'), '... it is built');
    spew($target, 'the old one');
}

# A filter that is taken away from under it.
{
    unlink $f;
    my $filter = $CLASS->new($f, 1000);
    my ($run, $wr) = at_work(3, ['add', '--stream', '-j3', $f]);
    $filter->freeze;
    local $SIG{PIPE} = 'IGNORE';
    CBFProc::until_true(10, sub { !syswrite $wr, $block, 20_000 });
    close $wr;
    fails(CBFCommand::end_of($run), qr/frozen/, 'frozen while others add');
    all_gone($run, '... leaves no process');
    is($CLASS->new_readonly($f)->verify, 1, '... the filter is whole');
}

# Whoever reads goes away: at once, or when all processes work.
spew("$dir/lines", $block x 3);
{
    my $filter = $CLASS->new(undef, @PLAN);
    $filter->add_many([map { "item $_" } 1 .. 100_000]);
    $filter->save($f);
}
for my $case ([1, 7], [3, 7], [3, 1_200_000]) {
    my ($jobs, $bytes) = @$case;
    my @args  = ('check', '-j', $jobs, $f, "$dir/lines");
    my $start = sub {
        pipe my $rd, my $wr or die "pipe: $!";
        my $run = start_cbf(\@args, out_to => $wr, group => 1);
        close $wr;
        my $got = '';
        1 while length $got < $bytes
            && sysread $rd, $got, $bytes - length $got, length $got;
        ok($got eq substr($block x 3, 0, $bytes),
            "$jobs processes, $bytes bytes are read");
        return $run;
    };
    my $run = $start->();
    my $end = CBFCommand::end_of($run);
    is("$end->{signal} $end->{err}", '13 ', '... ends by SIGPIPE');
    all_gone($run, '... leaves no process');
    {
        local $SIG{PIPE} = 'IGNORE';
        $run = $start->();
    }
    fails(CBFCommand::end_of($run), qr/standard output: Broken pipe/,
        '... or fails, where that is ignored');
    all_gone($run, '... leaves no process');
    open my $full, '>', '/dev/full' or die;
    fails(cbf(\@args, out_to => $full), qr/standard output: No space/,
        '... and when there is no room');
}

done_testing;
