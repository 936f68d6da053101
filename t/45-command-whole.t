# cbf add and remove do all or nothing: input that ends badly at the last moment,
# signals, no room for what is kept, files that change, no other processes; and
# --stream, which does not wait.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Temp ();
use IO::Compress::Gzip ();
use Test::More;
use CBFCommand;
use CBFProc ();
use CBFTest;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command;
use Data::CountingBloomFilter::Shared::Command::Spool;

watchdog(120);

my $dir  = File::Temp->newdir;
my $f    = "$dir/f.cbf";
my @PLAN = (20_000, 0.01);
mkdir "$dir/tmp" or die;
$ENV{TMPDIR} = "$dir/tmp";

# More than is kept in memory, and more than one process does alone; each line in
# two columns.
my @few  = map { "few $_\t$_" } 1 .. 100;
my @many = map { "item $_\t" . 'x' x 100 } 1 .. 45_000;
my $few  = spew("$dir/few", lines(@few));
my $many = spew("$dir/many", lines(@many));
IO::Compress::Gzip::gzip(\lines(@few), "$dir/few.gz") or die;
IO::Compress::Gzip::gzip(\lines(@many), "$dir/many.gz", -Level => 1) or die;

# The counters of such items, whatever order they come in.
sub table_of {
    my $filter = $CLASS->new(undef, @PLAN);
    $filter->add_many([@_]);
    return substr $filter->to_bytes, 16768;
}

sub fresh {
    unlink $f;
    my $filter = $CLASS->new($f, @PLAN);
    $filter->add_many([@_]);
    undef $filter;
    return slurp($f);
}

sub holds {
    my ($items, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(substr(slurp($f), 16768) eq table_of(@$items), $name);
}

sub ends_well {
    my ($run, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is("$run->{status}$run->{signal}$run->{out}$run->{err}", '00', $name);
}

# A command that has read all its files and now waits at the pipe behind them.
sub waiting {
    my ($args, $text, %opt) = @_;
    pipe my $rd, my $wr or die "pipe: $!";
    my $run = start_cbf([@$args, '-'], in_from => $rd, %opt);
    close $rd;
    feed($wr, $text);
    CBFProc::until_true(20, sub { !unread($wr) });
    return ($run, $wr);
}

# ---- an error at the last moment ----------------------------------------

spew("$dir/cut.gz", substr slurp("$dir/few.gz"), 0, -2);
my $torn = slurp("$dir/many.gz");
spew("$dir/torn.gz", substr $torn, 0, length($torn) - 500);
# One that inflates to other bytes than were packed, as its checksum tells.
my $altered = slurp("$dir/few.gz");
substr($altered, -8, 4) ^= "\1\2\3\4";
spew("$dir/altered.gz", $altered);
my %bad = map { $_ => "$dir/$_.gz" } qw(cut torn altered);
# A file that can be opened, but not read at its beginning.
{
    open my $in, '<', '/proc/self/mem';
    $bad{EIO} = '/proc/self/mem' if $in && !defined sysread $in, my $byte, 1;
}
my @before = map { "item $_" } 1 .. 45_000;
my $before = fresh(@before, @before);
for my $command ('add', 'remove') {
    for my $case ([[$few], '-q'], [[$many], '-j3'],
        [[$few, "$dir/many.gz"], '-f1'], [[$many, "$dir/few.gz"], '-0'],
        [[$few], '-e', 'item 1'])
    {
        my ($files, @options) = @$case;
        for my $why (sort keys %bad) {
            fails(cbf($command, @options, $f, @$files, $bad{$why}),
                qr/\Q$bad{$why}\E: /, "$command @options: $why at the end");
            ok(slurp($f) eq $before, '... changes nothing');
        }
    }
    fails(cbf($command, '--stream', '-f1', $f, $many, $bad{cut}), qr/cut\.gz/,
        "$command --stream: the same");
    ok(slurp($f) ne $before, '... does');
    $before = fresh(@before, @before);
}
fails(cbf('add', '--atomic', $f, $many, $bad{torn}), qr/torn\.gz/,
    'add --atomic');
ok(slurp($f) eq $before, '... changes nothing');
SKIP: {
    skip 'no file here whose reading fails', 1 if !$bad{EIO};
    fails(cbf('add', $f, $bad{EIO}), qr/mem: Input\/output error/, 'EIO');
}

fails(cbf('build', '-n9', "$dir/none.cbf", $bad{altered}),
    qr/altered\.gz: .*CRC/, 'build: data that do not match their checksum');
ok(!-e "$dir/none.cbf", '... publish nothing');

# A target that won't do is known before anything is read: nothing ever comes.
spew("$dir/broken.cbf", substr($before, 0, 300) . 'x' x 99);
$CLASS->new(undef, @PLAN)->save("$dir/frozen.cbf");
for my $command ('add', 'remove') {
    for my $bad (qw(none broken frozen)) {
        pipe my $rd, my $wr or die;
        fails(cbf([$command, "$dir/$bad.cbf"], in_from => $rd), qr/$bad\.cbf/,
            "$command: $bad target, before the input");
    }
}

# Standard input that stands behind its end is empty, and that is all.
{
    my $here = fresh('here');
    open my $behind, '<', $few or die;
    sysseek $behind, 1_000_000, 0;
    ends_well(cbf(['add', $f], in_from => $behind), 'input behind its end');
    ok(slurp($f) eq $here, '... is none');
    fresh(@before, @before);
}

# ---- signals ----------------------------------------------------------------

my %number = (HUP => 1, INT => 2, TERM => 15);
for my $case (['INT', 'add', lines(@many)], ['TERM', 'remove', lines(@few)],
    ['HUP', 'remove', lines(@many)], ['INT', 'add', lines(@few)])
{
    my ($name, $command, $text) = @$case;
    my ($run, $wr) = waiting([$command, '-f1', $f, $few], $text);
    my @temporary = grep { defined && m{\A\Q$dir\E/tmp/} }
        map { readlink } glob "/proc/$run->{pid}/fd/*";
    is(scalar @temporary, length $text > 4 * 1024 * 1024 ? 1 : 0,
        "$command: a temporary file for long input only");
    is(names_in("$dir/tmp"), '', '... and it has no name');
    kill $name, $run->{pid};
    my $end = end_of($run);
    is("$end->{signal} $end->{out}$end->{err}", "$number{$name} ",
        "SIG$name while it reads ends it");
    ok(slurp($f) eq $before, '... and it has changed nothing');
}

# The lock is waited for before anything is changed.
for my $command ('add', 'remove') {
    my $holder = $CLASS->new($f, @PLAN);
    my $fh = CBFProc::handle_on($f);
    my @batch = map { "batch-$_" } 1 .. 15_000;
    my $c = CBFProc::spawn(sub {
        my ($me) = @_;
        $holder->add_many(\@batch), $holder->remove_many(\@batch)
            until $me->told;
        return 'done';
    });
    ok($c->stop_holding($fh), 'a stopped process holds the lock');
    my $run = start_cbf([$command, $f, $few]);
    # it sleeps at the lock, and nowhere else for so long
    CBFProc::until_true(20, sub {
        open my $in, '<', "/proc/$run->{pid}/syscall" or return 1;
        return (<$in> // '') =~ /\A(?:202|98|240) /;
    });
    kill 'TERM', $run->{pid};
    my $end = end_of($run);
    is("$end->{signal} $end->{out}$end->{err}", '15 ',
        "$command: a signal ends the wait");
    $c->tell('enough');
    $c->cont;
    is(CBFProc::outcome($c->result(10)), 'returned done', '... the holder too');
    undef $holder;
    $before = fresh(@before, @before);
}

# Signals in all processes, all the time, while items are added: perl's methods
# are made to send them.
sub with_signals {
    my ($method, @words) = @_;
    no warnings 'redefine';
    no strict 'refs';
    my $real = \&{"${CLASS}::$method"};
    my $n = 0;
    my $r = guarded(40, sub {
        *{"${CLASS}::$method"} = sub {
            kill((qw(TERM INT HUP))[$n++ % 3], $$);
            return $real->(@_);
        };
        return Data::CountingBloomFilter::Shared::Command->run($CBF, @words);
    });
    return CBFTest::outcome($r);
}

fresh();
is(with_signals('add_many', 'add', '-j3', '-f1', $f, $many),
    'killed by signal 15', 'signals while items are added end it');
holds([map { "item $_" } 1 .. 45_000], '... when all are in');
is(with_signals('remove_many', 'remove', '-f1', $f, "$dir/many.gz"),
    'killed by signal 15', 'while they are removed');
holds([], '... when all are gone');
is(with_signals('add_many', 'add', '--stream', '-f1', $f, $many),
    'killed by signal 15', 'with --stream');
ok(substr(slurp($f), 16768) ne table_of(map { "item $_" } 1 .. 45_000),
    '... at once');

# ---- no way on while items are added ------------------------------------

{
    fresh();
    my ($run, $wr) = waiting(['add', $f, $many], 'x');
    $CLASS->new($f, @PLAN)->freeze;
    close $wr;
    my $end = end_of($run);
    fails($end, qr/frozen/, 'frozen while it reads');
    unlike($end->{err}, qr/a part of/, '... nothing is in');
    is($CLASS->new_readonly($f)->verify, 1, '... the filter is whole');
    holds([], '... and as it was');
}
{
    fresh();
    my $test = $$;
    my $r = guarded(40, sub {
        open STDERR, '>', "$dir/said" or die;
        no warnings 'redefine';
        my ($real, $n) = (\&Data::CountingBloomFilter::Shared::add_many, 0);
        *Data::CountingBloomFilter::Shared::add_many = sub {
            die "no more\n" if ++$n > 9;
            return $real->(@_);
        };
        return Data::CountingBloomFilter::Shared::Command->run($CBF, 'add',
            '-j2', $f, $many, $many);
    });
    is(CBFTest::outcome($r), "returned '2'", 'an error while items are added');
    is(slurp("$dir/said"), "cbf: no more; a part of the items is in\n",
        '... is not told as if nothing had happened');
}
fresh();
ends_well(cbf(['add', '-j8', '-f1', $f, $many], limits => '-n 20'),
    'no other processes can be had');
holds([map { "item $_" } 1 .. 45_000], '... one does it all');
$before = fresh('a');
fails(cbf(['add', $f, "$dir/many.gz"], limits => '-f 2000'),
    qr/\Q$dir\E\/tmp: File too large/, 'no room for a temporary file');
ok(slurp($f) eq $before, '... changes nothing');

# ---- files that change between the readings -----------------------------

$before = fresh('a');
for my $case (
    ['cut', sub { truncate $_[0], 10 or die }],
    ['emptied', sub { spew($_[0], '') }])
{
    my ($what, $change) = @$case;
    spew("$dir/plain", lines(@few));
    my ($run, $wr) = waiting(['add', $f, "$dir/plain"], 'x');
    $change->("$dir/plain");
    close $wr;
    fails(end_of($run), qr/plain: changed while it was read/, "a file that is $what");
    ok(slurp($f) eq $before, '... changes nothing');
}
for my $case (
    ['grows', sub { open my $out, '>>', $_[0] or die; print {$out} "more\n" }],
    ['is removed', sub { unlink $_[0] or die }],
    ['is replaced', sub { rename spew("$dir/new", 'new'), $_[0] or die }])
{
    my ($what, $change) = @$case;
    fresh();
    spew("$dir/plain", lines(@few));
    my ($run, $wr) = waiting(['add', $f, "$dir/plain"], 'x');
    $change->("$dir/plain");
    close $wr;
    ends_well(end_of($run), "a file that $what");
    holds([@few, 'x'], '... is as it was when it was read');
}
# Not all of so many files can be kept open.
my @files = map { spew("$dir/file-$_", "in file $_") } 1 .. 105;
fresh();
ends_well(cbf('add', $f, @files), '105 files');
holds([map { "in file $_" } 1 .. 105], '... are all read');
$before = fresh('a');
my ($run, $wr) = waiting(['add', $f, @files], 'x');
rename spew("$dir/new", 'in file 105'), $files[-1] or die;
close $wr;
fails(end_of($run), qr/file-105: changed while it was read/, 'one is replaced');
ok(slurp($f) eq $before, '... changes nothing');

# ---- what is read twice is the same twice -------------------------------

spew("$dir/no-end", "a\nb");
spew("$dir/empty", '');
IO::Compress::Gzip::gzip(\"z1\nz2", "$dir/no-end.gz") or die;
my @some = map { "$dir/$_" } qw(no-end no-end.gz empty no-end.gz no-end);
for my $big ([], ["$dir/many.gz"]) {
    fresh();
    ends_well(cbf(['add', '-j2', $f, @$big, @some, '-', @some],
        in_from => do { pipe my $rd, my $wr or die; syswrite $wr, "s1\ns2"; $rd }),
        'ends of files, ' . (@$big ? 'in a temporary file' : 'in memory'));
    holds([@$big ? @many : (), (qw(a b z1 z2 z1 z2 a b)) x 2, qw(s1 s2)],
        '... are ends of items');
}
fresh();
ends_well(cbf(['add', '-0', '-f2', '-d,', $f, '-', $few],
    in => join "\0", "a,b\nc", 'd', ',e'), '-0 and columns');
holds(["b\nc", 'e'], '... are what they are');
fresh();
ends_well(cbf(['add', $f, "$dir/empty", '-'], in => ''), 'nothing');
holds([], '... is nothing');
{
    fresh();
    open my $in, '<', $few or die;
    sysread $in, my $line, length "$few[0]\n" or die;
    ends_well(cbf(['add', $f, '-', $few, '-'], in_from => $in),
        'standard input, a file');
    holds([@few[1 .. 99], @few], '... is read from where it stands, once');
}

SKIP: {
    my $made_up = '/proc/sys/kernel/ostype';    # of 0 bytes, it says
    skip "no $made_up here", 2 if !-r $made_up || -s _;
    fresh();
    ends_well(cbf('add', $f, $made_up), 'a file that the kernel makes up');
    holds([slurp($made_up) =~ s/\n//r], '... is read as well');
}

# Memory does not grow with the input.
{
    my $spool = Data::CountingBloomFilter::Shared::Command::Spool->new;
    my ($left, $most) = (300, 0);
    $spool->take({ shown => 'many blocks', read => sub {
        ${ $_[0] } .= 'x' x 65536;
        return $left-- > 0 ? 65536 : 0;
    } }, sub {
        my $length = length $spool->{text};
        $most = $length if $length > $most;
    });
    cmp_ok($most, '<', 5e6, 'of 20 MB no more than 5 are in memory');
    my ($part) = $spool->parts;
    is($part->{bytes}, 300 * 65536, '... and all are there');
}

# ---- --stream, --new ----------------------------------------------------

for my $case (['--stream', 'add', 1], ['--new', 'add', 1], ['-q', 'add', 0],
    ['--stream', 'remove', 0], ['-q', 'remove', 1], ['--atomic', 'add', 0])
{
    my ($option, $command, $is_in) = @$case;
    fresh($command eq 'remove' ? 'x' : ());
    my $filter = $CLASS->new($f, @PLAN);
    my ($run, $wr) = waiting([$command, $option, $f], "x\n");
    CBFProc::until_true(10, sub { $filter->contains('x') == $is_in });
    is($filter->contains('x'), $is_in,
        "$command $option: while more may come");
    close $wr;
    is(end_of($run)->{status}, 0, '... and it ends well');
    is($filter->contains('x'), $command eq 'add' ? 1 : 0, '... with the same');
}

done_testing;
