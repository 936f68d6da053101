# cbf add, remove, check, count-of: what is an item, in every form of input, and
# what is said of it; compared with a hash of counts.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Temp ();
use IO::Compress::Bzip2 ();
use IO::Compress::Gzip ();
use Test::More;
use CBFCommand;
use CBFModel;
use CBFProc ();
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog(120);

my $dir = File::Temp->newdir;
my $f   = "$dir/f.cbf";

# Chance has no part in what follows: at this rate, and so few items, a wrong
# yes would be a wonder, and the model says that there is none.
my @PLAN = (1000, 1e-6);

sub fresh {
    my @items = @_;
    unlink $f;
    my $filter = $CLASS->new($f, @PLAN);
    $filter->add_many(\@items) if @items;
    return $f;
}

# The counters of a file are those of these items, added as often as they come.
sub holds {
    my ($file, $items, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $model = CBFModel->new(@PLAN);
    $model->add_many($items);
    return is(unpack('H*', CBFModel::parse_file(slurp($file))->{table}),
        unpack('H*', $model->bytes), $name);
}

sub is_run {
    my ($run, $status, $out, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is("$run->{status} $run->{signal} $run->{out}$run->{err}",
        "$status 0 $out", $name);
}

# Every byte but the separator, in one item.
my $bytes = join '', map { chr } grep { $_ != 10 } 0 .. 255;

subtest 'what is an item' => sub {
    my @case = (
        ['lines',                "a\nb\nc\n",        ['a', 'b', 'c']],
        ['no last line end',     "a\nb",             ['a', 'b']],
        ['CRLF is kept',         "a\r\nb\r\n",       ["a\r", "b\r"]],
        ['empty lines',          "\n\na\n\n",        ['', '', 'a', '']],
        ['one empty line',       "\n",               ['']],
        ['no line',              '',                 []],
        ['every byte',           "$bytes\nx\n",      [$bytes, 'x']],
        ['spaces are kept',      " a \n\ta\n",       [' a ', "\ta"]],
        ['UTF-8 is bytes',       "\xc3\xa4\n\xe4\n", ["\xc3\xa4", "\xe4"]],
        ['twice is twice',       "a\na\n",           ['a', 'a']],
        ['a long line', 'x' x 200_000 . "\ny\n",     ['x' x 200_000, 'y']],
        ['a long last line', "y\n" . 'x' x 200_000,  ['y', 'x' x 200_000]],
    );
    for my $case (@case) {
        my ($name, $in, $items) = @$case;
        fresh();
        is_run(cbf(['add', $f], in => $in), 0, '', "add: $name");
        holds($f, $items, '... and it holds them');
        is_run(cbf(['check', $f], in => $in), @$items ? 0 : 1,
            lines(@$items), '... and they are in');
        is_run(cbf(['check', '-v', $f], in => $in), 1, '', '... all of them');
    }
    for my $case (
        ['NUL separated',    "a\nb\0c\0",    ["a\nb", 'c']],
        ['no last NUL',      "a\0b\n",       ['a', "b\n"]],
        ['empty ones',       "\0\0",         ['', '']])
    {
        my ($name, $in, $items) = @$case;
        fresh();
        is_run(cbf(['add', '-0', $f], in => $in), 0, '', "add -0: $name");
        holds($f, $items, '... and it holds them');
        is_run(cbf(['check', '--null', $f], in => $in), 0,
            join('', map { "$_\0" } @$items), '... and they are in');
    }
};

subtest 'where items come from' => sub {
    spew("$dir/one", "a\nb");
    spew("$dir/two", "c\n");
    spew("$dir/-odd name", "d\n");
    IO::Compress::Gzip::gzip(\"z1\nz2", "$dir/z.gz") or die;
    IO::Compress::Gzip::gzip(\"z3\n", "$dir/more.gz") or die;
    IO::Compress::Bzip2::bzip2(\"bz\n", "$dir/b.bz2") or die;
    spew("$dir/both.GZ", slurp("$dir/z.gz") . slurp("$dir/more.gz"));

    fresh();
    is_run(cbf('add', $f, "$dir/one", "$dir/two"), 0, '', 'files');
    holds($f, [qw(a b c)], '... a missing line end joins nothing');
    is_run(cbf(['add', $f, "$dir/two", '-', "$dir/one"], in => "s\n"), 0, '',
        'standard input among them');
    holds($f, [qw(a b c c s a b)], '... is read as well');
    is_run(cbf('add', $f, '-e', 'x y', '--item=', '-e', '-v'), 0, '',
        'items on the command line');
    holds($f, [qw(a b c c s a b), 'x y', '', '-v'], '... alone');
    fresh();
    is_run(cbf(['add', '-e', 'e', $f, '-'], in => "s\n"), 0, '',
        '... and with others');
    holds($f, [qw(e s)], '... both');
    fresh();
    is_run(cbf('add', $f, "$dir/z.gz", "$dir/b.bz2"), 0, '', 'compressed');
    holds($f, [qw(z1 z2 bz)], '... by name');
    fresh();
    is_run(cbf('add', $f, "$dir/both.GZ"), 0, '', 'several in one file');
    holds($f, ['z1', 'z2z3'], '... are one text');
    fresh();
    is_run(cbf('add', $f, '--', "$dir/-odd name"), 0, '', 'after --');
    chdir $dir or die;
    is_run(cbf('add', $f, '--', '-odd name'), 0, '', '... a name with a dash');
    chdir '/' or die;
    holds($f, [qw(d d)], '... too');
    pipe my $rd, my $wr or die;
    my $run = start_cbf(['check', $f], in_from => $rd);
    close $rd;
    syswrite $wr, $_ for "d", "\nn", "o\nd";
    close $wr;
    is_run(CBFCommand::end_of($run), 0, "d\nd\n",
        'a pipe that brings pieces of lines');
    is_run(cbf(['check', $f, '/dev/stdin'], in => "d\n"), 0, "d\n",
        'a device');
};

# perl can be told to decode what it reads; here it must not.
for my $unicode ('SDA', 'SDAL') {
    fresh();
    my %env = (PERL_UNICODE => $unicode, LC_ALL => 'C.UTF-8');
    my @args = ('add', $f, '-e', "\xc3\xb6", '-');
    is_run(cbf(\@args, in => "\xc3\xa4\n\xe4\n", env => \%env), 0, '',
        "PERL_UNICODE=$unicode");
    holds($f, ["\xc3\xb6", "\xc3\xa4", "\xe4"], '... items are bytes');
    is_run(cbf(['check', $f, '-e', "\xc3\xb6"], env => \%env), 0,
        "\xc3\xb6\n", '... also when printed');
}

subtest 'columns' => sub {
    my $text = "1\ta\tx\n2\tb\n3\n\n4\t\tz\n";
    fresh();
    is_run(cbf(['add', '-f', 2, $f], in => $text), 0, '', 'of lines with TABs');
    holds($f, ['a', 'b', ''], '... a line without it has no item');
    fresh();
    is_run(cbf(['add', '--field=1', $f], in => $text), 0, '', 'the first');
    holds($f, [1, 2, 3, '', 4], '... is in every line');
    fresh();
    is_run(cbf(['add', '-f3', '-d', '\t', $f], in => $text), 0, '', 'the last');
    holds($f, ['x', 'z'], '... and \t is a TAB');
    fresh();
    is_run(cbf(['add', '-f2', '-d.', $f], in => "a.b.c\nabc\n.\n"), 0, '',
        'a delimiter means itself');
    holds($f, ['b', ''], '... as it is written');
    fresh();
    is_run(cbf(['add', '-f2', '-d', '::', $f], in => "a::b:c::d\na:b\nx::y"), 0,
        '', 'a delimiter of several bytes');
    holds($f, ['b:c', 'y'], '... ends a column as a whole');
    fresh();
    is_run(cbf(['add', '-0f2', '-d,', $f], in => "a,b\nc,d\0e,f\0"), 0, '',
        'with NUL');
    holds($f, ["b\nc", 'f'], '... a column may hold line ends');

    fresh();
    is_run(cbf('add', '-f2', $f, '-e', "a\tb"), 0, '', 'an item by word');
    holds($f, ["a\tb"], '... is whole');

    fresh('a', '');
    is_run(cbf(['check', '-f2', $f], in => $text), 0, "1\ta\tx\n4\t\tz\n",
        'check prints whole lines');
    is_run(cbf(['check', '-vf2', $f], in => $text), 0, "2\tb\n3\n\n",
        '... -v also those without the column, in their order');
    is_run(cbf(['check', '-cf2', $f], in => $text), 0, "2\n", '... -c');
    is_run(cbf(['check', '-cvf2', $f], in => $text), 0, "3\n", '... -cv');
    is_run(cbf(['check', '-qf2', $f], in => $text), 0, '', '... -q');
    is_run(cbf(['count-of', '-f2', $f], in => $text), 0,
        "1\t1\ta\tx\n0\t2\tb\n0\t3\n0\t\n1\t4\t\tz\n",
        'count-of prints whole lines');
    is_run(cbf(['remove', '-f2', $f], in => "9\ta\n8\n"), 0, '',
        'remove passes over lines without it');
    holds($f, [''], '... and takes the others');
};

subtest 'check' => sub {
    fresh(qw(a b c));
    my $in = "a\nx\nb\nx\n";
    is_run(cbf(['check', $f], in => $in), 0, "a\nb\n", 'lines that are in');
    is_run(cbf(['check', '-v', $f], in => $in), 0, "x\nx\n", 'that are not');
    is_run(cbf(['check', '-c', $f], in => $in), 0, "2\n", 'their number');
    is_run(cbf(['check', '-vc', $f], in => "a\n$in"), 0, "2\n", '... with -v');
    is_run(cbf(['check', '-q', $f], in => $in), 0, '', 'quietly: yes');
    is_run(cbf(['check', '-qc', $f], in => $in), 0, '', '... -q wins over -c');
    is_run(cbf(['check', $f], in => "x\n"), 1, '', 'none');
    is_run(cbf(['check', '-c', $f], in => "x\n"), 1, "0\n", '... 0 of them');
    is_run(cbf(['check', '-q', $f], in => "x\n"), 1, '', '... quietly: no');
    is_run(cbf(['check', '-qv', $f], in => "a\nb\n"), 1, '', '... none is not');
    is_run(cbf(['check', '-v', $f], in => "a\nb\n"), 1, '', '... the same');
    is_run(cbf('check', $f, '-e', 'a', '-e', 'q'), 0, "a\n", 'by word');
    is_run(cbf('check', '-v', $f, '-e', 'a', '-e', 'q'), 0, "q\n", '... not');

    # -q is content with the first: what comes after it is not even read.
    pipe my $rd, my $wr or die;
    my $run = start_cbf(['check', '-q', $f], in_from => $rd);
    close $rd;
    syswrite $wr, "x\na\n";
    is_run(CBFCommand::end_of($run), 0, '', '-q does not wait for the end');
    close $wr;

    # What a pipe brought is answered before more comes.
    pipe $rd, $wr or die;
    pipe my $answers, my $out or die;
    $run = start_cbf(['check', $f], in_from => $rd, out_to => $out);
    close $out;
    for my $item (qw(a b a)) {
        syswrite $wr, $item;
        CBFProc::until_true(20, sub { !unread($rd) });
        syswrite $wr, "\n";
        sysread $answers, my $line, 100;
        is($line, "$item\n", 'an answer to each line');
    }
    close $wr;
    is_run(CBFCommand::end_of($run), 0, '', 'until there are no more');

    $CLASS->new($f, @PLAN)->freeze;
    chmod 0400, $f;
    is_run(cbf(['check', $f], in => $in), 0, "a\nb\n", 'a frozen filter');
};

subtest 'count-of' => sub {
    fresh(qw(a b b), ('c') x 20);
    is_run(cbf(['count-of', $f], in => "a\nb\nc\nd\n\n"), 0,
        "1\ta\n2\tb\n15\tc\n0\td\n0\t\n", 'each line, its count before it');
    is_run(cbf('count-of', '-0', $f, '-e', 'b'), 0, "2\tb\0", '-0');
};

subtest 'add' => sub {
    fresh('a');
    is_run(cbf(['add', '--new', $f], in => "a\nb\nb\nc\n"), 0, "b\nc\n",
        '--new prints those that were not in');
    holds($f, [qw(a b c)], '... and adds no others');
    is_run(cbf(['add', '-uf2', $f], in => "1\td\n2\td\n3\n"), 0, "d\n",
        '... of a column, the item');
    is_run(cbf(['add', '--atomic', $f], in => "e\ne\n"), 0, '', '--atomic');
    holds($f, [qw(a b c d e e)], '... adds all');
};

subtest 'remove' => sub {
    fresh(qw(a b b c));
    is_run(cbf(['remove', $f], in => "a\nb\n"), 0, '', 'all were there: 0');
    holds($f, [qw(b c)], '... and are gone, as often as they came');
    is_run(cbf(['remove', $f], in => "b\nb\nx\n"), 1, '', 'one was not: 1');
    holds($f, ['c'], '... the others are gone');
    is_run(cbf(['remove', $f], in => ''), 0, '', 'nothing to remove');
};

subtest 'what fails' => sub {
    fresh('a');
    my $before = slurp($f);
    my $cut = substr slurp("$dir/z.gz"), 0, 20;
    spew("$dir/bad.gz", 'this was never compressed');
    spew("$dir/cut.gz", $cut);
    spew("$dir/empty.gz", '');
    for my $command (qw(add remove check count-of)) {
        fails(cbf($command, $f, "$dir/one", "$dir/missing"),
            qr/\Q$dir\E\/missing: No such file/, "$command: a missing file");
        fails(cbf($command, $f, $dir), qr/\Q$dir\E: Is a directory/,
            "$command: a directory");
        for my $bad (qw(bad cut empty)) {
            fails(cbf($command, $f, "$dir/$bad.gz"),
                qr/$bad\.gz: can't be uncompressed/, "$command: $bad.gz");
        }
        fails(cbf($command, "$dir/none.cbf", "$dir/one"),
            qr/none\.cbf.*No such file/, "$command: no filter");
        ok(!-e "$dir/none.cbf", '... and none is made');
        fails(cbf($command, "$dir/one", "$dir/one"),
            qr/invalid counting Bloom filter.*one|one.*too small/,
            "$command: what is no filter");
        is(slurp("$dir/one"), "a\nb", '... is left alone');
        fails(cbf($command), qr/\Q$command\E: too few arguments/,
            "$command: no filter named");
    }
    is(slurp($f), $before, 'none of it changed the filter');
    spew("$dir/zero", '');
    fails(cbf('add', "$dir/zero", '-e', 'x'), qr/zero.*empty/, 'an empty file');
    is(-s "$dir/zero", 0, '... is not taken for a new one');

    my $frozen = "$dir/frozen.cbf";
    spew($frozen, slurp($f));
    $CLASS->new($frozen, @PLAN)->freeze;
    my $sealed = slurp($frozen);
    for my $command ('add', 'remove') {
        fails(cbf($command, $frozen, '-e', 'a'), qr/frozen\.cbf.*is frozen/,
            "$command: a frozen filter");
    }
    is(slurp($frozen), $sealed, '... is left as it is');

    open my $full, '>', '/dev/full' or die;
    fails(cbf(['check', $f], in => "a\n", out_to => $full),
        qr/standard output: No space/, 'check: nobody takes what it prints');

    for my $command (qw(add check)) {
        my $run = cbf([$command, $f], no_in => 1);
        fails($run, qr/standard input is closed/, "$command: no standard input");
    }

    my @wrong = (
        [['check', '--field', 0, $f],       qr/--field.* 0/],
        [['check', '--field', 'x', $f],     qr/field/],
        [['check', '--field', 40_000, $f],  qr/--field.* 40000/],
        [['check', '-d', ',', $f],          qr/--delimiter needs --field/],
        [['check', '-f', 1, '-d', '', $f],  qr/--delimiter/],
        [['check', '--jobs', 0, $f],        qr/--jobs.* 0/],
        [['check', '--jobs', 65, $f],       qr/--jobs.* 65/],
        [['add', '-v', $f],                 qr/add: unknown option: v/],
        [['add', '-au', $f],                qr/--atomic and --new exclude/],
        [['add', '-as', $f],                qr/--atomic and --stream exclude/],
        [['check', '--new', $f],            qr/check: unknown option: new/],
        [['check', '--inver', $f],          qr/check: unknown option: inver/],
    );
    fails(cbf(@{ $_->[0] }), $_->[1], "cbf @{ $_->[0] }[0 .. 2]") for @wrong;
};

done_testing;
