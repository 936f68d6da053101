# cbf info, histogram, size: for people, as JSON, for Prometheus, in a terminal.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Temp ();
use JSON::PP ();
use Test::More;
use CBFCommand;
use CBFModel;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog(90);

my $dir  = File::Temp->newdir;
my @plan = (200, 0.01);
my $f    = "$dir/f.cbf";
my @items = ((map { "item $_" } 1 .. 150), ('often') x 20);
my $model = CBFModel->new(@plan);
$model->add_many(\@items);
$CLASS->new($f, @plan)->add_many(\@items);
my $frozen = "$dir/frozen.cbf";
$CLASS->new(undef, @plan)->save($frozen);

my %want = %{ $model->stats };
my $disk = (stat $frozen)[12] * 512;    # of one that nobody writes to

sub out_of {
    my $run = cbf(@_);
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$run->{status}$run->{signal}$run->{err}", '00', 'cbf '
        . join ' ', map { s{.*/}{}sr =~ s/\W/?/gr } grep { defined && !ref } @_);
    return $run->{out};
}

subtest 'info --json' => sub {
    my $out = out_of('info', '--json', $f);
    like($out, qr/\A[^\n]+\n\z/, 'one line');
    my $data = JSON::PP->new->utf8->decode($out);
    for my $key (sort keys %want) {
        next if $key =~ /\A(?:frozen|readonly)\z/;
        cmp_ok(abs($data->{$key} - $want{$key}), '<=', 1e-9 * $want{$key},
            "$key: $want{$key}");
        like($out, qr/"$key":[-0-9.e]+[,}]/, '... a number');
    }
    is($data->{file}, $f, 'file');
    is_deeply([sort keys %$data], [sort keys %want, 'file', 'disk_bytes'],
        'and nothing else');
    like($out, qr/"frozen":false/, 'not frozen');
    my @two = split /\n/, out_of('info', '-J', $f, $frozen);
    is(scalar @two, 2, 'a line for each file');
    my $second = JSON::PP->new->decode($two[1]);
    is($second->{frozen}, JSON::PP::true(), 'frozen');
    is($second->{disk_bytes}, $disk, 'disk_bytes');

    for my $case (["a \"b\" \\\n\x01.cbf", "a \"b\" \\\n\x01.cbf"],
        ["\xc3\xa4.cbf", "\xe4.cbf"], ["\xff.cbf", "\xff.cbf"])
    {
        my ($name, $shown) = @$case;
        spew("$dir/$name", slurp($frozen));
        my $out = out_of('info', '-J', "$dir/$name");
        is(JSON::PP->new->utf8->decode($out)->{file}, "$dir/$shown",
            'an odd name');
    }
};

# A reader of the text format, by its description: families with HELP and TYPE
# before their samples, together; returns { name => { file => value } }.
sub read_metrics {
    my ($text) = @_;
    my (%value, %seen, $family, @odd);
    push @odd, 'no line end' if $text !~ /\n\z/;
    for my $line (split /\n/, $text) {
        if ($line =~ /\A# HELP ([a-z_]+) \S.*\z/) {
            push @odd, "twice: $1" if $seen{$1}++;
            $family = $1;
        }
        elsif ($line =~ /\A# TYPE ([a-z_]+) (gauge|counter)\z/) {
            push @odd, "TYPE of $1" if $1 ne $family;
            push @odd, "name of $1" if ($2 eq 'counter') != ($1 =~ /_total\z/);
        }
        elsif ($line =~ /\A([a-z_]+)\{file="((?:[^"\\\n]|\\[\\"n])*)"\} (-?[0-9.]+(?:e[-+][0-9]+)?)\z/) {
            my ($name, $file, $number) = ($1, $2, $3);
            push @odd, "sample of $name" if $name ne $family;
            $file =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ge;
            $value{$name}{$file} = $number;
        }
        else { push @odd, $line }
    }
    is("@odd", '', 'the text format');
    return \%value;
}

subtest 'info --prometheus' => sub {
    my $odd = spew("$dir/a \"b\" \\\n.cbf", slurp($frozen));
    my $value = read_metrics(out_of('info', '--prometheus', $f, $frozen, $odd));
    my %key = (
        cbf_capacity_items => 'capacity', cbf_configured_fp_rate => 'fp_rate',
        cbf_estimated_fp_rate => 'estimated_fp_rate',
        cbf_counters => 'counters', cbf_counters_set => 'counters_set',
        cbf_counters_saturated => 'saturated', cbf_hashes => 'hashes',
        cbf_fill_ratio => 'fill_ratio', cbf_distinct_items => 'count',
        cbf_items => 'items', cbf_operations_total => 'ops',
        cbf_recoveries_total => 'recovered', cbf_file_bytes => 'mmap_size',
        cbf_frozen => 'frozen',
    );
    for my $name (sort keys %key) {
        my $is = $want{ $key{$name} };
        cmp_ok(abs($value->{$name}{$f} - $is), '<=', 1e-9 * $is,
            "$name: $is");
    }
    is($value->{cbf_disk_bytes}{$frozen}, $disk, 'cbf_disk_bytes');
    is(join(' ', sort keys %$value),
        join(' ', sort keys %key, 'cbf_disk_bytes'), 'and nothing else');
    is(join(' ', @{ $value->{cbf_frozen} }{ $f, $frozen, $odd }), '0 1 1',
        'a sample for each file');
};

subtest 'info' => sub {
    my $out = out_of('info', $f, $frozen);
    my ($one, $two, @more) = split /\n\n/, $out;
    is(scalar @more, 0, 'a part for each file');
    my %line = map { split /: +/, $_, 2 } split /\n/, $one;
    is($line{file}, $f, 'file');
    is($line{state}, 'mutable', 'state');
    is($line{'file size'}, '17,792 (17.4 KiB)', 'file size');
    is($line{capacity}, '200 items at a rate of 0.01', 'capacity');
    is($line{counters}, '2,048, 7 an item', 'counters');
    is($line{items}, '170, added less removed', 'items')
        if $want{items} == 170;
    is($line{saturated}, "$want{saturated} counters at 15, where counting ends",
        'saturated');
    like($line{'different items'}, qr/\Aabout $want{count}, [0-9.]+ % of the/,
        'different items');
    like($two, qr/^state: +frozen$/m, 'the other is frozen');
    like($two, qr/^saturated: +0 counters$/m, 'and empty');
};

subtest 'info: what fails' => sub {
    fails(cbf('info', "$dir/none"), qr/none.*No such file/, 'no file');
    fails(cbf('info', $f, "$dir/none"), qr/none/, '... among others');
    fails(cbf('info', $dir), qr/neither a regular file/, 'a directory');
    fails(cbf('info', '-JP', $f), qr/exclude each other/, 'two formats');
    fails(cbf('info'), qr/too few arguments/, 'nothing');
    open my $full, '>', '/dev/full' or die;
    fails(cbf(['info', $f], out_to => $full), qr/standard output: No space/,
        'nowhere to print');
};

# ---- histogram -----------------------------------------------------------

sub chart {
    my ($env, @more) = @_;
    return out_of(['histogram', $f], env => { COLUMNS => undef,
        TERM => 'xterm', NO_COLOR => undef, %$env }, @more);
}

sub widest { return (sort { $b <=> $a } map { length } split /\n/, $_[0])[0] }

subtest 'histogram' => sub {
    my $out = chart({});
    my @count = @{ $model->histogram };
    my %row = map { /\A +([0-9]+)\+? +([0-9]+) +([0-9.]+) % +([0-9.]+) %  (.*)\z/
        ? ($1 => [$2, $3, $4, $5]) : () } split /\n/, $out;
    is_deeply([map { $row{$_} ? $row{$_}[0] : 0 } 0 .. 15], \@count,
        'counters by value');
    my $mean = $want{items} * 7 / 2048;
    my ($p, $left) = (exp -$mean, 1);
    for my $value (0 .. 15) {
        my $is = $value < 15 ? $p : $left;
        $left -= $p;
        $p *= $mean / ($value + 1);
        next if !$row{$value};
        is($row{$value}[1], sprintf('%.4f', 100 * $count[$value] / 2048),
            "share of $value");
        is($row{$value}[2], sprintf('%.4f', 100 * abs $is),
            "expected of $value");
    }
    my $longest = (sort { $b <=> $a } map { length $_->[3] } values %row)[0];
    is(length $row{0}[3], $longest, 'the longest bar is the most');
    like($row{0}[3], qr/\A#+(?:\|#*| *\|)?\z/, '... a bar and a mark');
    like($row{15}[3], qr/\A[#|]\z/, 'few counters are to be seen, too');
    like($out, qr/^fill [0-9.]+ %, [0-9.]+ % expected of \d+ items, [0-9.]+ % at capacity$/m,
        'fill');
    like($out, qr/^error rate \S+ now, \S+ at capacity, 0\.01 configured$/m,
        'error rate');
    unlike($out, qr/\e/, 'no colour');
    is(widest($out), 80, 'as wide as is usual');
    for my $columns (50, 60, 200) {
        is(widest(chart({ COLUMNS => $columns })), $columns, "COLUMNS=$columns")
            if $columns > 72;
        cmp_ok(widest($out = chart({ COLUMNS => $columns }) =~ s/\n\n.*//sr),
            '<=', $columns, '... the chart fits');
    }
    is(widest(chart({ COLUMNS => $_ })), 80, "COLUMNS=$_") for '', 0, 'x', -5;
    my $empty = out_of('histogram', $frozen);
    like($empty, qr/^    0 +2048 100\.0000 % 100\.0000 %/m, 'an empty filter');
    fails(cbf('histogram', "$dir/none"), qr/none.*No such file/, 'no file');
    fails(cbf('histogram', $f, $f), qr/too many arguments/, 'two');
};

SKIP: {
    my ($ours, $theirs) = terminal(100) or skip 'no terminals here', 1;
    subtest 'histogram in a terminal' => sub {
        my $show = sub {
            my ($env) = @_;
            ($ours, $theirs) = terminal(100);
            chart($env, out_to => $theirs);
            close $theirs;
            return read_terminal($ours);
        };
        my $out = $show->({});
        like($out, qr/\e\[[0-9;]+m#+\e\[0m/, 'in colour');
        my $plain = $out =~ s/\e\[[0-9;]*m//gr;
        unlike($plain, qr/\e/, '... colour only');
        is(widest($plain), 100, 'as wide as it is');
        is($plain, chart({ COLUMNS => 100 }), '... the same text');
        is(widest($show->({ COLUMNS => 90, NO_COLOR => 1 })), 90,
            'COLUMNS and NO_COLOR');
        unlike($show->({ NO_COLOR => 1 }), qr/\e/, 'NO_COLOR');
        like($show->({ NO_COLOR => '' }), qr/\e/, '... empty');
        unlike($show->({ TERM => 'dumb' }), qr/\e/, 'a dumb terminal');
        unlike($show->({ TERM => undef }), qr/\e/, 'an unknown terminal');
    };
}

# ---- size ----------------------------------------------------------------

subtest 'size' => sub {
    my $data = sub { JSON::PP->new->decode(out_of('size', '--json', @_)) };
    for my $case ([1], [10], [1000], [1_000_000, 0.001], [10_000_000, 0.3],
        [123_456_789, 1e-9])
    {
        my ($n, $rate) = @$case;
        my $is = $data->('-n', $n, defined $rate ? ('-p', $rate) : ());
        $rate = 0.01 if !defined $rate;
        my $plan = CBFModel->geometry($n, $rate);
        is("@{$is}{qw(capacity fp_rate counters hashes bytes)}",
            join(' ', $n, 0 + $rate, @{$plan}{qw(counters hashes mmap_size)}),
            "plan of $n at $rate");
        cmp_ok(abs($is->{bytes_per_item} * $n - $is->{bytes}), '<', 1,
            '... bytes an item');
        my $most = $is->{room_for};
        is(CBFModel->geometry($most, $rate)->{mmap_size}, $is->{bytes},
            '... as much as there is room for fits');
        cmp_ok(CBFModel->geometry($most + 1, $rate)->{mmap_size}, '>',
            $is->{bytes}, '... and no more');
    }
    for my $case ([16_800], [16_831], [16_832], [20_000, 1e-9], ['64K'],
        ['65M', 0.001], ['2GiB'], ['1.5g', 0.05], ['300G', 1e-5])
    {
        my ($size, $rate) = @$case;
        my %unit = (K => 1 << 10, M => 1 << 20, G => 1 << 30);
        my ($n, $unit) = $size =~ /\A([0-9.]+)([KMG]?)/i;
        my $bytes = $n * ($unit ? $unit{ uc $unit } : 1);
        my $is = $data->('--bytes', $size, defined $rate ? ('-p', $rate) : ());
        $rate = 0.01 if !defined $rate;
        cmp_ok($is->{bytes}, '<=', $bytes, "$size at $rate: fits");
        is(CBFModel->geometry($is->{capacity}, $rate)->{mmap_size},
            $is->{bytes}, '... and is so large');
        my $more = CBFModel->counters_for_more($is->{capacity} + 1, $rate);
        ok(!defined $more || CBFModel::file_bytes_for($more) > $bytes,
            '... one item more does not fit');
    }
    # The largest tables and those with the fewest items.
    for my $k (1 .. 32) {
        next if $k % 8 > 1;
        my $is = $data->('-b', 16768 + 2 ** (5 + $k), '-p', 2 ** -$k);
        my ($n, $rate) = @{$is}{qw(capacity fp_rate)};
        is(CBFModel->geometry($n, $rate)->{counters}, 2 ** (6 + $k),
            "$k probes: fits");
        cmp_ok(CBFModel->counters_for_more($n + 1, $rate) // 2 ** 39, '>',
            2 ** (6 + $k), '... and no more');
    }
    my $text = out_of('size', '-n', '10M');
    like($text, qr/^capacity: +10,000,000 items$/m, 'for people: capacity');
    like($text, qr/^file size: +67,125,632 \(64\.0 MiB\)$/m, '... size');
    like($text, qr/^an item: +6\.71 bytes$/m, '... an item');
    like($text, qr/^counters: +134,217,728, 7 an item$/m, '... counters');
    like($text, qr/^room for: +13,290,377 items/m, '... room');

    fails(cbf('size'), qr/one of --capacity and --bytes/, 'nothing');
    fails(cbf('size', '-n5', '-b5'), qr/one of/, 'both');
    fails(cbf('size', '-b', '16799'), qr/too little.*16800/, 'too small');
    fails(cbf('size', '-b', 'x'), qr/--bytes.*x/, 'no number');
    fails(cbf('size', '-n', 'x'), qr/capacity.*x/, '... of items');
    fails(cbf('size', '-n', '1e15'), qr/too large/, 'too many');
    fails(cbf('size', '-n9', '-p2'), qr/fp_rate.*2/, 'a bad rate');
    fails(cbf('size', '-b64M', '-p2'), qr/fp_rate.*2/, '... with bytes');
    fails(cbf('size', '-n9', 'x'), qr/too many arguments/, 'a file');
};

done_testing;

package CBFModel;

# Counters for so many items; undef beyond the largest table.
sub counters_for_more {
    my ($class, $n, $rate) = @_;
    return counters_for($n, hashes_for($rate));
}
