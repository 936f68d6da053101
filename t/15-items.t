# Every kind of item through every method: which bytes it is, what it warns, how
# often its code runs, and that the argument is left as it was.
use strict;
use warnings;
use Test::More;
use Scalar::Util ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

my $calls = 0;    # of foreign code: FETCH, overloading

{
    package Local::Tied;
    sub TIESCALAR { my ($class, $value) = @_; bless \$value, $class }
    sub FETCH     { $calls++; ${ $_[0] } }
    sub STORE     { die 'stored into' }

    package Local::Text;
    use overload '""' => sub { $calls++; ${ $_[0] } }, fallback => 1;
    sub new { my ($class, $text) = @_; bless \$text, $class }

    package Local::Number;
    use overload '0+' => sub { $calls++; ${ $_[0] } }, fallback => 1;
    sub new { my ($class, $number) = @_; bless \$number, $class }
}

watchdog;

sub upgraded { my ($text) = @_; utf8::upgrade($text); return $text }
sub tied_to  { my ($value) = @_; tie my $x, 'Local::Tied', $value; return \$x }
sub used  { no warnings; my ($n) = @_; my $as_integer = $n | 0; return $n }
sub shown { my ($n) = @_; my $as_text = "$n"; return $n }
sub once_wide { my $text = "\xe9\x{263a}"; chop $text; return $text }

my $array = [1];
my $code  = sub { 1 };
my $plain = bless {}, 'Local::Plain';
my $long  = join '', map { chr(($_ * 7 + 3) & 255) } 1 .. 70_000;

# [what, a reference to the argument, the item's bytes, calls of foreign code]
my @kinds = (
    ['the empty string',   \'',          ''],
    ['a NUL',              \"\0",        "\0"],
    ['NULs around text',   \"\0a\0b\0",  "\0a\0b\0"],
    ['all byte values',    \join('', map { chr } 0 .. 255),
        join('', map { chr } 0 .. 255)],
    ['70,000 bytes',       \$long,       $long],
    ['high bytes',         \"\xe9\xff",  "\xe9\xff"],
    ['the same, upgraded', \upgraded("\xe9\xff"), "\xe9\xff"],
    ['ASCII, upgraded',    \upgraded('plain'), 'plain'],
    ['empty, upgraded',    \upgraded(''), ''],
    ['no longer wide',     \once_wide(), "\xe9"],
    ['a whole number',     \42,          '42'],
    ['a negative number',  \-7,          '-7'],
    ['zero',               \0,           '0'],
    ['a fraction',         \1.5,         '1.5'],
    ['a rounded one',      \(0.1 + 0.2), '0.3'],
    ['the largest UV',     \18446744073709551615, '18446744073709551615'],
    ['a large float',      \1e21,        '1e+21'],
    ['a float used as an integer', \used(1e15), '' . used(1e15)],
    ['a fraction used as one', \used(3.75), '3.75'],
    ['a number used as text', \shown(1e3), '1000'],
    ['digits used as a number', \used('007'), '007'],
    ['upgraded ones', \used(upgraded('007')), '007'],
    ['text used as a number', \used('0x1F'), '0x1F'],
    ['text with a number beside it', \Scalar::Util::dualvar(5, 'five'), 'five'],
    ['true',               \!!1,         '1'],
    ['false',              \!!0,         ''],
    ['a version string',   \v1.22.3,     "\1\x16\3"],
    ['a glob',             \*STDOUT,     '*main::STDOUT'],
    ['an array reference', \$array,      "$array"],
    ['a code reference',   \$code,       "$code"],
    ['an object',          \$plain,      "$plain"],
    ['a compiled pattern', \qr/a+/,      '' . qr/a+/],
    ['overloaded text',    \Local::Text->new("ov\0er\xe9"), "ov\0er\xe9", 1],
    ['overloaded, upgraded', \Local::Text->new(upgraded("\xe9")), "\xe9", 1],
    ['an overloaded number', \Local::Number->new(12.5), '12.5', 1],
    ['a tied scalar',      tied_to('tied'), 'tied', 1],
    ['a tied number',      tied_to(7),      '7', 1],
    ['a tied scalar, upgraded', tied_to(upgraded("\xfc")), "\xfc", 1],
    ['an object in a tied scalar', tied_to(Local::Text->new('in')), 'in', 2],
);

my $f     = $CLASS->new(undef, 50, 1e-9);
my $model = CBFModel->new(50, 1e-9);

# [method, does it take a list, what it answers after one add, what it does]
my @methods = (
    [add => 0, 0],      [contains => 0, 1],      [count_of => 0, 1],
    [remove => 0, 1],   [add_if_absent => 0, 0], [add_many => 1, 0],
    [contains_many => 1, 1], [count_of_many => 1, 1], [remove_many => 1, 1],
);
my %change = (add => 'add', add_many => 'add', remove => 'remove',
    remove_many => 'remove');

for my $kind (@kinds) {
    my ($what, $ref, $bytes, $runs) = @$kind;
    my @off;
    my $kept = $runs ? '' : defined $$ref ? "$$ref" : undef;
    local $SIG{__WARN__} = sub { push @off, "warned @_" };
    for my $method (@methods) {
        my ($name, $is_list, $want) = @$method;
        $_->clear for $f, $model;
        $_->add($bytes) for $f, $model;
        $calls = 0;
        my ($got) = $is_list ? $f->$name([$$ref]) : $f->$name($$ref);
        # Making the list has already read what is tied.
        my $expect = $runs || 0;
        push @off, "$name ran foreign code $calls times" if $calls != $expect;
        push @off, "$name answered $got" if $got ne $want;
        my $does = $change{$name};
        $model->$does($bytes) if $does;
        push @off, "$name: the table" unless table_is($f, $model);
    }
    push @off, 'the argument changed'
        if !$runs && (ref \$$ref ne 'GLOB') && "$$ref" ne $kept;
    is("@off", '', "$what is its bytes in every method");
}

# undef is the empty string, with a warning.
my ($undef, @warned);
tie my $tied_undef, 'Local::Tied', undef;
for my $case (['undef', \$undef], ['a tied undef', \$tied_undef]) {
    my ($what, $ref) = @$case;
    for my $method (qw(add contains count_of remove add_if_absent)) {
        $_->clear for $f, $model;
        $_->add('') for $f, $model;
        @warned = ();
        local $SIG{__WARN__} = sub { push @warned, @_ };
        my $got = $f->$method($$ref);
        is(scalar @warned, 1, "$method of $what warns once");
        like($warned[0], qr/\AUse of uninitialized value.* at \Q$0\E line/,
            '... as perl does, and where');
        is($got, $method =~ /add/ ? 0 : 1, '... and is the empty string');
    }
}
{
    no warnings;
    @warned = ();
    local $SIG{__WARN__} = sub { push @warned, @_ };
    $f->add(undef);
    is("@warned", '', 'no warning where warnings are off');
}
{
    use warnings FATAL => 'uninitialized';
    $_->clear for $f, $model;
    like(error_of(sub { $f->add(undef) }), qr/\AUse of uninitialized value/,
        'a fatal warning is an error');
    like(error_of(sub { $f->add_many(['a', undef, 'b']) }),
        qr/\AUse of uninitialized value/, '... in a batch too');
    is($f->stats->{counters_set}, 0, '... and nothing has been added');
}

# A wide character is refused by every method, wherever it comes from.
$_->clear for $f, $model;
$_->add('kept') for $f, $model;
for my $case (
    ['a wide string', \"snow\x{2603}"], ['a wide string at the end of a long one',
        \('x' x 1000 . "\x{100}")],
    ['a tied wide string', tied_to("\x{2603}")],
    ['an object that is a wide string', \Local::Text->new("\x{2603}")],
) {
    my ($what, $ref) = @$case;
    for my $method (qw(add contains count_of remove add_if_absent)) {
        croaks($method, qr/Wide character/, sub { $f->$method($$ref) },
            "$method refuses $what");
    }
    for my $method (qw(add_many contains_many count_of_many remove_many present
        absent add_if_absent_many)) {
        croaks($method, qr/Wide character/, sub { $f->$method([$$ref]) },
            "$method refuses $what");
    }
}
table_is($f, $model, 'nothing has changed');

done_testing;
