# Every constructor with every wrong kind of argument: the promised words, after
# "CLASS->method: ", and nothing made.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir  = File::Temp->newdir;
my $path = "$dir/made.cbf";
my $inf  = 9**9**9;
my $nan  = $inf - $inf;

# An existing filter, whose own geometry would win: arguments are checked all
# the same.
my $there = "$dir/there.cbf";
my $model = CBFModel->new(100, 0.01);
{
    my $f = $CLASS->new($there, 100, 0.01);
    $_->add('kept') for $f, $model;
}
my $before = slurp($there);

# Each way to give a capacity and a rate.
my %way = (
    new               => [sub { $CLASS->new(undef, @_) },       'new'],
    'new with a path' => [sub { $CLASS->new($path, @_) },       'new'],
    'new on a file'   => [sub { $CLASS->new($there, @_) },      'new'],
    new_memfd         => [sub { $CLASS->new_memfd('bad', @_) }, 'new_memfd'],
    geometry          => [sub { $CLASS->geometry(@_) },         'geometry'],
);

# ---- capacity ----------------------------------------------------------

my %capacity = (
    'zero'              => 0,
    'zero as text'      => '0',
    'minus zero'        => '-0',
    'negative'          => -1,
    'a large negative'  => -1e18,
    'less than one'     => 0.99,
    'a small negative'  => -0.5,
    'NaN'               => $nan,
    'NaN as text'       => 'nan',
    'infinite'          => $inf,
    'minus infinite'    => -$inf,
    'infinite as text'  => 'inf',
    'undef'             => undef,
    'an empty string'   => '',
    'a word'            => 'many',
    'a number and more' => '12 apples',
    'hexadecimal text'  => '0x10',
    'an array'          => [100],
    'a hash'            => {},
    'code'              => sub { 100 },
    'a filter'          => $CLASS->new(undef, 5),
);
for my $way (sort keys %way) {
    my ($code, $method) = @{ $way{$way} };
    for my $what (sort keys %capacity) {
        no warnings;
        croaks($method, qr/capacity/, sub { $code->($capacity{$what}, 0.01) },
            "$way: capacity $what");
        croaks($method, qr/capacity/, sub { $code->($capacity{$what}) },
            '... with the default rate');
    }
    like(error_of(sub { $code->() }), qr/\A(?:Usage: )?\Q$CLASS\E(?:->|::)$method\b.*capacity/,
        "$way: no capacity at all");
    for my $huge (2**38, 1e18, 18446744073709551615, 2**64, 1e30, 1e308) {
        croaks($method, qr/too large/, sub { $code->($huge, 0.01) },
            "$way: capacity $huge");
    }
}

# ---- fp_rate -----------------------------------------------------------

my %rate = (
    'zero'             => 0,
    'one'              => 1,
    'one as text'      => '1.0',
    'more than one'    => 1.0000001,
    'a percentage'     => 5,
    'negative'         => -0.01,
    'minus zero'       => -0.0,
    'NaN'              => $nan,
    'NaN as text'      => 'nan',
    'infinite'         => $inf,
    'minus infinite'   => -$inf,
    'an empty string'  => '',
    'a word'           => 'low',
    'a number and more' => '0.01 percent',
    'a fraction'       => '1/100',
    'less than any number' => '1e-400',
    'an array'         => [0.01],
    'code'             => sub { 0.01 },
);
for my $way (sort keys %way) {
    my ($code, $method) = @{ $way{$way} };
    for my $what (sort keys %rate) {
        no warnings;
        croaks($method, qr/fp_rate/, sub { $code->(100, $rate{$what}) },
            "$way: fp_rate $what");
    }
    croaks($method, qr/capacity|fp_rate/, sub { $code->(0, 0) },
        "$way: both wrong");
    croaks($method, qr/capacity/, sub { $code->(0.01, 1000) },
        "$way: capacity and rate swapped");
}

# ---- mode and path -----------------------------------------------------

for my $case (['one bit more', 010000], ['all bits', 0xFFFFFFFF], ['negative', -1],
    ['a word', 'rw'], ['an empty string', ''], ['an array', [0600]],
    ['NaN', $nan], ['infinite', $inf], ['very large', 2**40 + 0600]) {
    my ($what, $mode) = @$case;
    no warnings;
    croaks('new', qr/mode/, sub { $CLASS->new($path, 100, 0.01, $mode) },
        "mode $what");
    croaks('new', qr/mode/, sub { $CLASS->new($there, 100, 0.01, $mode) },
        '... on an existing file');
    croaks('new', qr/mode/, sub { $CLASS->new(undef, 100, 0.01, $mode) },
        '... and without one');
}
for my $case (['empty', ''], ['with a NUL', "$path\0x"], ['a NUL alone', "\0"]) {
    my ($what, $bad) = @$case;
    croaks('new', qr/path/, sub { $CLASS->new($bad, 100) }, "path $what: new");
    croaks('new_readonly', qr/path/, sub { $CLASS->new_readonly($bad) },
        "path $what: new_readonly");
}
croaks('new_readonly', qr/path.*required|required.*path/,
    sub { $CLASS->new_readonly(undef) }, 'new_readonly of undef');
croaks('new_readonly', qr/path.*required|required.*path/,
    sub { $CLASS->new_readonly }, 'new_readonly of nothing');

# ---- new_memfd and new_from_fd -----------------------------------------

croaks('new_memfd', qr/./, sub { $CLASS->new_memfd('x' x 300, 100) },
    'a memfd name that is too long');
croaks('new_memfd', qr/name/, sub { $CLASS->new_memfd("a\0b", 100) },
    'a memfd name with a NUL');

pipe my $rd, my $wr or die $!;
open my $null, '<', '/dev/null' or die $!;
opendir my $here, "$dir" or die $!;
open my $text, '+>', "$dir/text" or die $!;
syswrite $text, 'x' x 30_000;
open my $ro, '<', $there or die $!;
open my $closed, '<', '/dev/null' or die $!;
my $gone = fileno $closed;
close $closed;
for my $case (
    ['undef', undef], ['a word', 'stdin'], ['an empty string', ''],
    ['negative', -1], ['a fraction', 1.5], ['a closed one', $gone],
    ['far too large', 2**31], ['larger still', 2**32], ['NaN', $nan],
    ['infinite', $inf], ['an array', [3]], ['a hash', {}],
    ['a pipe', fileno $rd], ['a device', fileno $null],
    ['a text file', fileno $text], ['read-only', fileno $ro],
    ["a directory", eval { fileno $here } || -1],
) {
    my ($what, $fd) = @$case;
    no warnings;
    croaks('new_from_fd', qr/./, sub { $CLASS->new_from_fd($fd) },
        "new_from_fd: $what");
}
like(error_of(sub { $CLASS->new_from_fd }),
    qr/\A(?:Usage: )?\Q$CLASS\E(?:->|::)new_from_fd\b/, 'new_from_fd of nothing');
ok(defined fileno $rd && sysseek($text, 0, 0), 'the descriptors are still open');

# ---- all is as it was --------------------------------------------------

ok(!-e $path, 'no file was made');
opendir my $d, "$dir" or die $!;
is(join(' ', sort grep { !/\A\./ } readdir $d), 'text there.cbf',
    '... of any name');
is(slurp($there), $before, 'the existing file is as it was');
table_is($CLASS->new($there, 1), $model, '... and works');

done_testing;
