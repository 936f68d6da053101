# cbf create, freeze, merge, verify, export, import: whole filters, and what is
# refused without a change.
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
mkdir "$dir/d" or die;
my $f = "$dir/d/f.cbf";
my @plan = (200, 0.01);

sub ends_well {
    my ($run, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is("$run->{status}$run->{signal}$run->{out}$run->{err}", '00', $name);
}

# A filter with these items in a file.
sub make {
    my ($name, @items) = @_;
    my $path = "$dir/d/$name";
    unlink $path;
    my $filter = $CLASS->new($path, @plan);
    $filter->add_many(\@items) if @items;
    return $path;
}

sub frozen {
    my $path = make(@_);
    $CLASS->new($path, @plan)->freeze;
    return $path;
}

# A copy with one bit changed.
sub damage {
    my ($bad, $good) = @_;
    my $data = slurp($good);
    substr $data, -1, 1, chr(ord(substr $data, -1) ^ 1);
    return spew($bad, $data);
}

sub table { return CBFModel::parse_file(slurp($_[0]))->{table} }

sub model_of {
    my $model = CBFModel->new(@plan);
    $model->add_many([@_]);
    return $model->bytes;
}

subtest 'create' => sub {
    my $umask = umask 0077;
    ends_well(cbf('create', '--capacity', 200, $f), 'create');
    is(mode_of($f), '0600', '... owner-only');
    is(unpack('H*', table($f)), unpack('H*', model_of()), '... no counters set');
    my $g = "$dir/d/g.cbf";
    ends_well(cbf('create', '-n', '3k', '-p', '1e-3', '-m', '0666', $g), 'again');
    is(mode_of($g), '0666', '... with a mode, whatever the umask');
    umask $umask;
    my $filter = $CLASS->new($g, 1);
    is($filter->capacity . ' ' . $filter->fp_rate, '3000 0.001',
        '... a capacity and a rate');
    unlink $g;

    my $before = slurp($f);
    spew("$dir/d/empty", '');
    symlink 'gone', "$dir/d/link" or die;
    my @wrong = (
        ['what is there', [$f, '-n9'], qr/f\.cbf: File exists/],
        ['an empty file', ["$dir/d/empty", '-n9'], qr/empty: File exists/],
        ['a dangling link', ["$dir/d/link", '-n9'], qr/link: File exists/],
        ['a directory', ["$dir/d", '-n9'], qr/d: File exists/],
        ['no capacity', [$g], qr/--capacity is needed/],
        ['capacity 0', [$g, '-n0'], qr/capacity.*0/],
        ['capacity -1', [$g, '-n-1'], qr/capacity.*-1/],
        ['capacity inf', [$g, '-ninf'], qr/capacity.*inf/],
        ['capacity 1e15', [$g, '-n1e15'], qr/too large/],
        ['rate 0', [$g, '-n9', '-p0'], qr/fp_rate.*0/],
        ['rate x', [$g, '-n9', '-px'], qr/fp_rate.*x/],
        ['mode 9', [$g, '-n9', '-m9'], qr/--mode.*9/],
        ['nowhere', ["$dir/no/x", '-n9'], qr/x: No such file/],
        ['two names', [$g, $f, '-n9'], qr/too many arguments/],
        ['no name', ['-n9'], qr/too few arguments/],
    );
    fails(cbf('create', @{ $_->[1] }), $_->[2], $_->[0]) for @wrong;
    is(names_in("$dir/d"), 'empty f.cbf link', 'nothing was made');
    ok(slurp($f) eq $before, '... nor changed');
    unlink "$dir/d/link", "$dir/d/empty";
};

subtest 'freeze' => sub {
    make('f.cbf', qw(a b));
    ends_well(cbf('freeze', $f), 'freeze');
    my $filter = $CLASS->new_readonly($f);
    is($filter->verify . $filter->contains('a'), '11', '... is whole');
    my $before = slurp($f);
    fails(cbf('freeze', $f), qr/f\.cbf is frozen already/, 'twice');
    ok(slurp($f) eq $before, '... changes nothing');
    fails(cbf('freeze', "$dir/d/none"), qr/none: No such file/, 'no file');
    fails(cbf('freeze', $dir), qr/neither a regular file/, 'a directory');
    spew("$dir/text", 'hello');
    fails(cbf('freeze', "$dir/text"), qr/invalid counting Bloom filter file/,
        'no filter');
    is(names_in("$dir/d"), 'f.cbf', 'nothing was made');
};

subtest 'verify' => sub {
    my $good = frozen('good', qw(a b));
    my $bad  = damage("$dir/d/bad", $good);
    my $open = make('open', 'a');
    my $old  = "$FindBin::Bin/data/v2-frozen.cbf";
    my @case = (
        [0, "$good: OK\n", $good],
        [1, "$bad: DAMAGED\n", $bad],
        [1, "$open: not frozen, nothing to compare with\n", $open],
        [1, "$old: no checksum, nothing to compare with\n", $old],
        [1, "$good: OK\n$bad: DAMAGED\n$good: OK\n", $good, $bad, $good],
    );
    for my $case (@case) {
        my ($status, $out, @files) = @$case;
        my $run = cbf('verify', @files);
        is("$run->{status} $run->{out}$run->{err}", "$status $out",
            $out =~ s/\n.*//sr =~ s{.*/}{}r);
        $run = cbf('verify', '-q', @files);
        is("$run->{status} $run->{out}$run->{err}", "$status ", '... quietly');
    }
    fails(cbf('verify', "$dir/none"), qr/none.*No such file/, 'no file');
    my $run = cbf('verify', $bad, "$dir/none", $good);
    is($run->{status}, 2, 'what fails weighs more than damage');
    is($run->{out}, "$bad: DAMAGED\n$good: OK\n", '... the others are told');
    like($run->{err}, qr/\Acbf: .*none.*\n\z/, '... and that one, on a line');
    unlink $good, $bad, $open;
};

subtest 'merge' => sub {
    my $into = make('into', qw(a b));
    my $x = make('x', qw(b c), ('d') x 14);
    my $y = frozen('y', qw(d d e));
    ends_well(cbf('merge', $into, $x, $y), 'merge into the first');
    my $model = CBFModel->new(@plan);
    $model->add_many([qw(a b b c), ('d') x 16, 'e']);
    ok(table($into) eq $model->bytes, '... the sum, and 15 at most');
    is(CBFModel::parse_file(slurp($into))->{seal}, 0, '... can be changed');
    ok(table($x) eq model_of(qw(b c), ('d') x 14), '... the others are as before');
    ends_well(cbf('merge', $y = make('y', 'q'), $y), 'with itself');
    ok(table($y) eq model_of(qw(q q)), '... all twice');

    my $out = "$dir/d/out";
    frozen('x', 'b');
    ends_well(cbf('merge', '-o', $out, '-m', '0640', $x, $into, $y),
        'merge into a new one');
    $model->add_many([qw(b q q)]);
    ok(table($out) eq $model->bytes, '... the sum');
    is(mode_of($out) . $CLASS->new_readonly($out)->verify, '06401',
        '... frozen and whole');
    ends_well(cbf('merge', '-o', $out, $y), 'merge of one');
    ok(table($out) eq model_of(qw(q q)), '... is a frozen copy');

    my $before = slurp($into);
    my $sealed = slurp($out);
    my $wide = "$dir/d/wide";
    { my $filter = $CLASS->new($wide, 5000, 0.01); $filter->add('w') }
    my $deep = "$dir/d/deep";
    { my $filter = $CLASS->new($deep, 100, 0.001); $filter->add('w') }
    for my $other ($wide, $deep) {
        fails(cbf('merge', $into, $y, $other),
            qr/geometry mismatch: .*into has 2048 counters and 7 hashes, \Q$other\E has \d+ counters and \d+/,
            'another geometry');
        fails(cbf('merge', '-o', $out, $into, $other), qr/geometry mismatch/,
            '... into a new one');
    }
    my $bad = "$dir/bad.cbf";
    damage($bad, frozen('z', 'v'));
    for my $args ([$into, $y, $bad], ['-o', $out, $bad], ['-o', $out, $y, $bad]) {
        fails(cbf('merge', @$args), qr/bad\.cbf: damaged, its checksum/,
            'a damaged one');
    }
    unlink "$dir/d/z";
    fails(cbf('merge', $into, $y, "$dir/none"), qr/none.*No such file/, 'no file');
    fails(cbf('merge', '-o', $out, $into, "$dir/none"), qr/none/, '... new');
    fails(cbf('merge', $out, $y), qr/out.*frozen/, 'into a frozen one');
    fails(cbf('merge', $into), qr/others/, 'nothing to merge');
    fails(cbf('merge', '-m', '0600', $into, $y), qr/--mode needs --output/,
        'a mode for nothing');
    fails(cbf('merge', '-o', "$dir/no/x", $into), qr/x: No such file/, 'nowhere');
    ok(slurp($into) eq $before, 'none of it changed the target');
    ok(slurp($out) eq $sealed, '... neither kind');
    is(names_in("$dir/d"), 'deep f.cbf into out wide x y', '... nor left anything');
    unlink glob "$dir/d/*";
};

subtest 'export and import' => sub {
    my $live = make('live', qw(a b b));
    my $want = model_of(qw(a b b));
    my $run  = cbf('export', $live);
    is("$run->{status}$run->{err}", 0, 'export');
    my $image = $run->{out};
    my $h = CBFModel::parse_file($image);
    is($h->{seal}, 1, '... a frozen image');
    ok($h->{table} eq $want, '... of its counters');
    at_rest_ok($image, '... with no trace of a process');
    is($CLASS->new($live, @plan)->frozen, 0, '... of one that stays as it is');

    my $g = "$dir/d/g";
    ends_well(cbf(['import', $g], in => $image), 'import');
    is($CLASS->new_readonly($g)->verify, 1, '... frozen and whole');
    ok(table($g) eq $want, '... the same counters');
    is(mode_of($g), '0600', '... owner-only');
    $run = cbf('export', $g);
    ok($run->{out} eq $image, 'an image of a frozen one is the same');

    ends_well(cbf('export', '-o', "$dir/d/image", '-m', '0440', $live),
        'export into a file');
    ok(slurp("$dir/d/image") eq $image, '... the same bytes');
    is(mode_of("$dir/d/image"), '0440', '... with a mode');
    ends_well(cbf('import', '-w', '-m', '0660', $g, "$dir/d/image"),
        'import a filter that can be changed');
    is(mode_of($g), '0660', '... with a mode');
    is(CBFModel::parse_file(slurp($g))->{seal}, 0, '... not frozen');
    ok(table($g) eq $want, '... the same counters');
    is($CLASS->new($g, @plan)->add('new'), 1, '... takes more');
    IO::Compress::Gzip::gzip(\$image, "$dir/d/image.gz") or die;
    ends_well(cbf('import', $g, "$dir/d/image.gz"), 'a compressed image');
    ok(table($g) eq $want, '... the same counters');
    $run = cbf(['import', $g],
        in => $CLASS->new($live, @plan)->to_bytes);
    is("$run->{status}$run->{err}", 0, 'an image that is not frozen');
    is($CLASS->new_readonly($g)->verify, 1, '... is frozen here');
    ends_well(cbf('import', $g, "$FindBin::Bin/data/v2-frozen.cbf"),
        'a frozen file of an older release');
    is($CLASS->new_readonly($g)->verify, 1, '... gets its checksum here');

    unlink "$dir/d/image.gz";
    my $before = slurp($g);
    my %bad = (
        'one bit' => do { my $x = $image; substr($x, -9, 1) ^= "\x20"; $x },
        'half'    => substr($image, 0, length($image) / 2),
        'a byte'  => substr($image, 0, -1),
        'more'    => "$image\0",
        'nothing' => '',
        'text'    => "hello\n" x 5000,
    );
    for my $what (sort keys %bad) {
        for my $how ([], ['-w']) {
            fails(cbf(['import', @$how, $g], in => $bad{$what}),
                qr/standard input: .*(?:damaged|invalid|too small)/,
                "import @$how: $what");
        }
    }
    fails(cbf('import', $g, "$dir/none"), qr/none: No such file/, 'no image');
    fails(cbf('import', "$dir/no/x", "$dir/d/image"), qr/x: No such file/,
        'nowhere');
    fails(cbf('export', "$dir/none"), qr/none.*No such file/, 'export: no filter');
    damage("$dir/bad.cbf", $g);
    fails(cbf('export', "$dir/bad.cbf"), qr/bad\.cbf: damaged/, 'a damaged one');
    fails(cbf('export', '-o', $g, "$dir/bad.cbf"), qr/bad\.cbf: damaged/,
        '... to a file');
    fails(cbf('export', '-m', '0600', $live), qr/--mode needs/, 'a mode');
    fails(cbf('export', '-o', "$dir/d/e", "$dir/none"), qr/none/, '... to a file');
    open my $full, '>', '/dev/full' or die;
    fails(cbf(['export', $live], out_to => $full), qr/standard output: No space/,
        'no room');
    ok(slurp($g) eq $before, 'none of it changed the target');
    is(names_in("$dir/d"), 'g image live', '... nor left anything');

    SKIP: {
        my ($ours, $theirs) = terminal() or skip 'no terminals here', 1;
        fails(cbf(['export', $live], out_to => $theirs), qr/is a terminal/,
            'no image on a terminal');
    }
};

# At the last moment: no room for all of the new file, or no way to its name.
subtest 'what fails at the end' => sub {
    unlink glob "$dir/d/*";
    my $large  = "$dir/large.cbf";
    { my $filter = $CLASS->new($large, 100_000) }
    my $image  = cbf('export', $large)->{out};
    my $target = frozen('target', 'a');
    my $before = slurp($target);
    my $list   = spew("$dir/list", lines(1 .. 100));
    my @case = (
        [['build', '-n', 100_000, $target, $list]],
        [['merge', '-o', $target, $large]],
        [['export', '-o', $target, $large]],
        [['import', $target], in => $image],
        [['import', '-w', $target], in => $image],
        [['create', '-n', 100_000, "$dir/d/new"]],
    );
    for my $case (@case) {
        my ($args, @options) = @$case;
        my $name = join ' ', map { s{.*/}{}sr } @$args;
        fails(cbf($args, @options, limits => '-f 100'), qr/File too large/,
            "$name: no room");
        ok(slurp($target) eq $before, '... changes nothing');
        is(names_in("$dir/d"), 'target', '... and leaves nothing');
    }
    for my $case ([['build', '-n9'], 'x'], [['import'], $image]) {
        my ($args, $text) = @$case;
        pipe my $rd, my $wr or die;
        my $run = start_cbf([@$args, "$dir/d/to"], in_from => $rd);
        close $rd;
        CBFProc::until_true(20, sub { names_in("$dir/d") =~ /\.to\./ });
        mkdir "$dir/d/to" or die;
        feed($wr, $text);
        close $wr;
        fails(end_of($run), qr/to: Is a directory/,
            "$args->[0]: its name has become a directory");
        is(names_in("$dir/d"), 'target to', '... nothing else is left');
        rmdir "$dir/d/to" or die;
    }
};

# A filter that may be in use is not for those who may only read it.
{
    # loaded before, for this directory may be closed to nobody
    require "Data/CountingBloomFilter/Shared/Command/$_.pm"
        for qw(Items Files Report Chart);
    chmod 0755, $dir;
    my $path = make('open', 'a');
    chmod 0444, $path;
    for my $command (qw(check count-of info histogram export)) {
        pipe my $rd, my $wr or die;
        my $r = as_nobody(sub {
            open $_, '>&', $wr or die for \*STDOUT, \*STDERR;
            return Data::CountingBloomFilter::Shared::Command->run($CBF,
                $command, $path);
        });
        is(CBFTest::outcome($r), "returned '2'", "$command: no permission");
        sysread $rd, my $said, 4096;
        is($said, "cbf: $path: Permission denied; a filter that is not frozen"
            . " can't be read without write permission: 'cbf freeze' it, or"
            . " read a copy that 'cbf export' makes\n", '... and what to do');
    }
}

# Names with everything in them.
for my $name ("new\nline.cbf", "\xe4\xff.cbf", ' ', '-x') {
    my $path = "$dir/d/$name";
    ends_well(cbf('create', '-n9', $path), 'create: an odd name');
    unlink $path;
    my $run = cbf('info', $path);
    fails($run, qr/\Acbf: [^\n]+\n\z/, '... on one line');
}

done_testing;
