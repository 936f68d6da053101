# cbf build: the file that comes out, in place of an old one or not at all.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Temp ();
use IO::Compress::Gzip ();
use Test::More;
use CBFCommand;
use CBFModel;
use CBFProc ();
use CBFTest;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command;

watchdog(90);

my $dir = File::Temp->newdir;
mkdir "$dir/out" or die;
my $to = "$dir/out/built.cbf";
my @items = map { "item $_" } 1 .. 300;
my $list  = spew("$dir/list", lines(@items));

sub table_of_items {
    my ($capacity, $rate, @more) = @_;
    my $model = CBFModel->new($capacity, $rate);
    $model->add_many([@items, @more]);
    return $model;
}

# The file is frozen, whole, and what the model says.
sub built_is {
    my ($model, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $h = CBFModel::parse_file(slurp($to));
    is($h->{seal}, 1, "$name: frozen");
    ok($h->{table} eq $model->bytes, '... with the counters of these items');
    at_rest_ok(slurp($to), '... and no trace of a process');
    is($CLASS->new_readonly($to)->verify, 1, '... and whole');
    is(names_in("$dir/out"), 'built.cbf', '... and alone there');
    return;
}

sub ends_well {
    my ($run, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is("$run->{status}$run->{signal}$run->{out}$run->{err}", '00', $name);
}

my $umask = umask 0027;
ends_well(cbf('build', '--capacity', 500, '--rate', '0.001', $to, $list),
    'from a file');
built_is(table_of_items(500, 0.001), 'from a file');
is(mode_of($to), '0600', '... owner-only');
ends_well(cbf(['build', '-n500', '-m', '0644', $to], in => slurp($list)),
    'from standard input, over an old one');
built_is(table_of_items(500, 0.01), 'from standard input');
is(mode_of($to), '0644', '... with the mode asked for');
ends_well(cbf('build', '-n500', '-m', '0222', $to, $list), 'nobody may read it');
is(mode_of($to), '0222', '... which is what was asked for');
umask $umask;

ends_well(cbf('build', '-n500', '-e', 'more', '-f1', '-d,', $to, $list),
    'with an item of its own');
built_is(table_of_items(500, 0.01, 'more'), '... and columns');

# Without a capacity, lines are counted.
spew("$dir/nul", join("\0", @items));
IO::Compress::Gzip::gzip(\slurp($list), "$dir/list.gz") or die;
for my $case (['a file', [$list], 300], ['two', [$list, "$dir/list.gz"], 600],
    ['no last separator', ['-0', "$dir/nul"], 300],
    ['and a word', [$list, '-e', 'x'], 301])
{
    my ($name, $args, $n) = @$case;
    ends_well(cbf('build', $to, @$args), "counted: $name");
    is($CLASS->new_readonly($to)->capacity, $n, "... $n");
}
{
    open my $in, '<', $list or die;
    sysread $in, my $line, 7;
    ends_well(cbf(['build', $to], in_from => $in), 'standard input, a file');
    my $filter = $CLASS->new_readonly($to);
    is($filter->capacity, 299, '... counted from where it stands');
    is($filter->contains('item 2') . $filter->contains('item 1'), '10',
        '... and read from there');
}
ends_well(cbf(['build', $to], in => ''), 'nothing at all');
is($CLASS->new_readonly($to)->count, 0, '... is an empty filter');

for my $case (['500', 500], ['1_000', 1000], ['2k', 2000], ['1.5K', 1500],
    ['3e2', 300], ['7.9', 7])
{
    ends_well(cbf('build', '-n', $case->[0], $to, '-e', 'x'), "-n $case->[0]");
    is($CLASS->new_readonly($to)->capacity, $case->[1], "... is $case->[1]");
}

my $run = cbf('build', '-n', 100, $to, $list);
is($run->{status}, 0, 'more items than fit are no error');
like($run->{err}, qr/\Acbf: \Q$to\E holds about \d+ different items, more than its capacity of 100: its error rate is 0\.\d+\n\z/,
    '... but worth a line');
ends_well(cbf('build', '-qn', 100, $to, $list), '... or not');

# ---- what can't be built leaves the old one as it is ----------------------

my $old = slurp($to);
spew("$dir/bad.gz", 'not compressed');
mkdir "$dir/out.d" or die;
my @wrong = (
    ['a missing file', ['build', '-n1', $to, "$dir/none"], qr/none: No such/],
    ['one of them missing', ['build', '-n1', $to, $list, "$dir/none"],
        qr/none: No such/],
    ['a directory', ['build', '-n1', $to, $dir], qr/Is a directory/],
    ['a bad file', ['build', '-n1', $to, $list, "$dir/bad.gz"], qr/bad\.gz/],
    ['a bad capacity', ['build', '-n', 'x', $to, $list], qr/capacity.*x/],
    ['no capacity at all', ['build', '-n0', $to, $list], qr/capacity.*0/],
    ['far too much', ['build', '-n', '1e15', $to, $list], qr/too large/],
    ['a bad rate', ['build', '-n1', '-p', 1, $to, $list], qr/fp_rate.*1/],
    ['a bad mode', ['build', '-n1', '-m', 888, $to, $list], qr/--mode.*888/],
    ['another', ['build', '-n1', '-m', '10000', $to, $list], qr/--mode/],
    ['a directory as target', ['build', '-n1', "$dir/out.d", $list],
        qr/out\.d: Is a directory/],
    ['a device', ['build', '-n1', '/dev/null', $list],
        qr/neither a regular file/],
    ['nowhere', ['build', '-n1', "$dir/no/f", $list], qr/f: No such file/],
    ['below a file', ['build', '-n1', "$to/f", $list], qr/f: Not a directory/],
    ['no name', ['build', '-n1', '', $list], qr/empty/],
);
for my $case (@wrong) {
    my ($name, $args, $pattern) = @$case;
    fails(cbf(@$args), $pattern, $name);
}
{
    pipe my $rd, my $wr or die;
    fails(cbf(['build', $to], in_from => $rd), qr/--capacity is needed/,
        'no capacity, and a pipe');
}
ok(slurp($to) eq $old, 'the old one is as it was');
is(names_in("$dir/out"), 'built.cbf', '... and alone there');
is(names_in("$dir/out.d"), '', '... nothing elsewhere');

{
    chmod 0711, $dir;
    chmod 0555, "$dir/out";
    chmod 0644, $list;
    my $r = as_nobody(sub {
        open STDERR, '>&', \*STDOUT or die;
        my $status = Data::CountingBloomFilter::Shared::Command->run(
            $CBF, 'build', '-n1', $to, $list);
        return "$status " . names_in("$dir/out");
    });
    is(CBFTest::outcome($r), "returned '2 built.cbf'",
        'a directory that may not be written');
    chmod 0755, "$dir/out";
    ok(slurp($to) eq $old, '... the old one is as it was');
}

{
    my $r = guarded(20, sub {
        open STDERR, '>&', \*STDOUT or die;
        no warnings 'redefine';
        *Data::CountingBloomFilter::Shared::verify = sub { 0 };
        return Data::CountingBloomFilter::Shared::Command->run(
            $CBF, 'build', '-n1', $to, $list);
    });
    is(CBFTest::outcome($r), "returned '2'", 'what can\'t be read back');
    ok(slurp($to) eq $old, '... the old one is as it was');
    is(names_in("$dir/out"), 'built.cbf', '... and alone there');
}

# A link is replaced, not followed.
symlink $list, "$dir/out/link" or die;
ends_well(cbf('build', "$dir/out/link", $list), 'a link as target');
ok(!-l "$dir/out/link" && $CLASS->new_readonly("$dir/out/link")->verify,
    '... is replaced');
is(slurp($list), lines(@items), '... and what it names is left alone');
unlink "$dir/out/link";

# Somebody else's unfinished file is no obstacle, and is left alone.
{
    pipe my $rd, my $wr or die;
    my $run = start_cbf(['build', '-n10', $to], in_from => $rd);
    close $rd;
    my $name = '';
    CBFProc::until_true(20, sub {
        ($name) = names_in("$dir/out") =~ /(\.built\S+)/;
    });
    like($name, qr/\A\.built\.cbf\.$run->{pid}\.1\.cbf\z/,
        'the file beside has its name at once');
    is(mode_of("$dir/out/$name"), '0600', '... and is nobody else\'s');
    ok(slurp($to) eq $old, '... the old one is there');
    kill 'INT', $run->{pid};
    my $end = CBFCommand::end_of($run);
    is("$end->{signal}$end->{out}$end->{err}", 2, 'SIGINT while it reads');
    is(names_in("$dir/out"), 'built.cbf', '... leaves no half file');
    ok(slurp($to) eq $old, '... and the old one');
}

# At any instant: from before it begins to after it has ended.
{
    spew("$dir/many", join '', map { "$_\n" } 1 .. 30_000);
    my (@odd, %saw);
    my $rounds = 12;
    for my $round (1 .. $rounds) {
        spew($to, $old);
        my $run = start_cbf(['build', '-q', $to, "$dir/many"]);
        select undef, undef, undef, 0.012 * $round;
        kill $round % 2 ? 'INT' : 'TERM', $run->{pid};
        my $end = CBFCommand::end_of($run);
        my $is  = slurp($to) eq $old ? 'old'
            : eval { $CLASS->new_readonly($to)->verify } ? 'new' : 'half';
        push @odd, $is if $is eq 'half' || $end->{err} ne ''
            || $end->{status} || ($is eq 'old' && !$end->{signal});
        push @odd, names_in("$dir/out") if names_in("$dir/out") ne 'built.cbf';
        $saw{$is}++;
    }
    is("@odd", '', 'signals at any instant: the old one or the new one');
    note(join ', ', map { "$_ $saw{$_}" } sort keys %saw);
}

done_testing;
