# _add_text, _present_text and _absent_text, which the command hands whole texts
# to: where items end, what the table then holds and what is found in it, and
# arguments that are no text, no separator, or run code.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFMagic;
use CBFModel;
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $seed = 14_014;
srand $seed;
my @plan = (500, 0.001);

# A new filter with a text in it, and how many items it had.
sub with_text {
    my ($text, $separator) = @_;
    my $f = $CLASS->new(undef, @plan);
    my $n = $f->_add_text($text, $separator);
    return ($f, $n);
}

sub holds {
    my ($f, $items, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $model = CBFModel->new(@plan);
    $model->add_many($items);
    table_is($f, $model, $name);
    return stats_are($f, $model, '... and totals');
}

# ---- where items end -----------------------------------------------------

my @ends = (
    ['nothing',            '',          []],
    ['one item',           'a',         ['a']],
    ['one that is ended',  "a\n",       ['a']],
    ['two',                "a\nb",      ['a', 'b']],
    ['two that are ended', "a\nb\n",    ['a', 'b']],
    ['one that is empty',  "\n",        ['']],
    ['some of them empty', "\n\na\n\n", ['', '', 'a', '']],
    ['one with NUL and return', "a\0b\r\n", ["a\0b\r"]],
    ['a long one',         'x' x 70_000 . "\ny", ['x' x 70_000, 'y']],
);
for my $case (@ends) {
    my ($name, $text, $items) = @$case;
    my ($f, $n) = with_text($text, "\n");
    is($n, scalar @$items, "$name: so many items");
    holds($f, $items, '... in the table');
}
for my $separator ("\0", "\n", ',', 'a', "\x7f", "\x80", "\xff", '1') {
    my $shown = sprintf '%02x', ord $separator;
    # its neighbours, and what differs in the top bit, are easily taken for it
    my @bytes = map { chr((ord($separator) + $_) & 255) } 0, 1, -1, 128, 127;
    my (@wrong, @texts);
    for my $len (0 .. 40, 1000) {
        my $text = join '', map { $bytes[rand @bytes] } 1 .. $len;
        my @items = split /\Q$separator\E/, $text, -1;
        pop @items if !@items || $items[-1] eq '';
        my ($f, $n) = with_text($text, $separator);
        my $model = CBFModel->new(@plan);
        $model->add_many(\@items);
        push @wrong, "$len bytes: $n" if $n != @items
            || substr($f->to_bytes, 16768) ne $model->bytes;
    }
    is("@wrong", '', "separator $shown: random texts") or diag "seed $seed";
}

# ---- what is found ---------------------------------------------------------

{
    my $f = $CLASS->new(undef, 1000, 1e-9);
    $f->add_many(['a', 'bb', '', 'long' x 1000]);
    my @pieces = ('a', 'bb', '', 'long' x 1000, 'c', 'dd', 'not' x 1000);
    my @texts = ('', "\n", 'a', "a\n", "c", "c\n", "c\na", "a\nc", "a\nc\n",
        "a\nbb", "c\ndd", map { join "\n", map { $pieces[rand @pieces] } 1 .. 40 }
        1 .. 50);
    my @wrong;
    for my $text (@texts) {
        my @items = split /\n/, $text, -1;
        pop @items if !@items || $items[-1] eq '';
        for my $case ([_present_text => $f->present(\@items)],
            [_absent_text => $f->absent(\@items)])
        {
            my ($method, @want) = @$case;
            my ($n, $found, @more) = $f->$method($text, "\n");
            push @wrong, "$method in list context: $text" if @more
                || $n != @want || $found ne join '', map { "$_\n" } @want;
            push @wrong, "$method in scalar context: $text"
                if $f->$method($text, "\n") ne @want;
        }
    }
    is("@wrong", '', 'what is found in texts') or diag "seed $seed";
    is(join('|', $f->_present_text("a\0c\0bb", "\0")), "2|a\0bb\0",
        'another separator');
    utf8::upgrade(my $text = "a\xe9c\xe9");
    is(join('|', $f->_absent_text($text, "\xe9")), "1|c\xe9",
        'a text that perl keeps as UTF-8');
    $f->freeze;
    is(join('|', $f->_present_text("c\na", "\n")), "1|a\n", 'a frozen filter');
    is($f->stats->{ops}, 1, '... and no call was counted');
    for my $method (qw(_present_text _absent_text)) {
        croaks($method, qr/Wide character in text/,
            sub { $f->$method("\x{2603}", "\n") }, "$method: a wide character");
        croaks($method, qr/separator must be one byte/,
            sub { $f->$method('a', '') }, "$method: no separator");
        my $r = guarded(8, sub {
            my $g = $CLASS->new(undef, 100);
            $g->add('a');
            my $item = CBFMagic::item("a\na", sub { $g->DESTROY });
            return join '|', $g->$method($item, "\n");
        });
        is(CBFTest::outcome($r), $method eq '_present_text'
            ? "returned '2|a\na\n'" : "returned '0|'",
            "$method: a text that destroys the filter");
    }
}

# ---- more than a batch -----------------------------------------------------

for my $case (['different', 200_000, 1e9], ['often the same', 300_000, 50]) {
    my ($name, $n, $different) = @$case;
    my @items = map { int rand $different } 1 .. $n;
    my $f = $CLASS->new(undef, 1_000_000);
    my $g = $CLASS->new(undef, 1_000_000);
    is($f->_add_text(join("\n", @items), "\n"), $n, "$n items, $name");
    $g->add_many(\@items);
    ok(substr($f->to_bytes, 16768) eq substr($g->to_bytes, 16768),
        '... fill the table as add_many does') or diag "seed $seed";
    my ($is, $want) = ($f->stats, $g->stats);
    is_deeply($is, $want, '... and are one call in stats')
        if $name eq 'different';
    is("$is->{items} $is->{saturated}", "$want->{items} $want->{saturated}",
        '... and counted alike');
}
{
    my $f = $CLASS->new(undef, @plan);
    $f->_add_text($_, "\n") for "a\n", '', "b\nc";
    is($f->stats->{ops}, 3, 'each call counts as one, an empty one, too');
    is($f->count_of('b') . $f->remove('c') . $f->contains('c'), '110',
        'what a text brought is like any other item');
}

# ---- texts -----------------------------------------------------------------

{
    my $text = my $upgraded = "caf\xe9\nna\xefve\n";
    utf8::upgrade($upgraded);
    my ($f, $n) = with_text($upgraded, "\n");
    is($n, 2, 'a text that perl keeps as UTF-8');
    holds($f, [split /\n/, $text], '... is the same bytes');
    ok(utf8::is_utf8($upgraded) && $upgraded eq $text, '... and is left alone');
    utf8::upgrade(my $separator = "\xe9");
    ($f, $n) = with_text($text, $separator);
    is($n, 2, 'a separator that perl keeps as UTF-8');
    holds($f, ['caf', "\nna\xefve\n"], '... is the same byte');
}
{
    my ($f, $n) = with_text(12345, 3);
    is($n, 2, 'numbers');
    holds($f, [12, 45], '... are their digits');
    my $text = "x\nab\ncd";
    ($f, $n) = with_text(substr($text, 2), "\n");
    holds($f, ['ab', 'cd'], 'a part of a string');
    $text =~ /(b\nc)/ or die;
    ($f, $n) = with_text($1, "\n");
    holds($f, ['b', 'c'], 'what matched');
    ($f, $n) = with_text([], 'Y');
    is($n, 2, 'a reference is its text');
}
{
    my @warned;
    local $SIG{__WARN__} = sub { push @warned, @_ };
    my ($f, $n) = with_text(undef, "\n");
    is($n, 0, 'undef is no item');
    like("@warned", qr/\AUse of uninitialized value/, '... with a warning');
}

# ---- arguments that are refused --------------------------------------------

{
    my $f = $CLASS->new(undef, @plan);
    my $model = CBFModel->new(@plan);
    $_->add('kept') for $f, $model;
    croaks('_add_text', qr/Wide character in text/,
        sub { $f->_add_text("a\nb\x{2603}\n", "\n") }, 'a wide character');
    for my $case (['', '""'], ['ab', '"ab"'], [undef, 'undef'],
        ["\x{2603}", '"\x{2603}"'], [10, '"10"'], [\1, '"SCALAR('])
    {
        my ($separator, $shown) = @$case;
        croaks('_add_text', qr/separator must be one byte, not \Q$shown/,
            sub { $f->_add_text("a\nb", $separator) }, "separator $shown");
    }
    my $usage = qr/\A(?:Usage: )?\Q$CLASS\E(?:->|::)_add_text\b/;
    like(error_of(sub { $f->_add_text("a") }), $usage, 'no separator');
    like(error_of(sub { $f->_add_text("a", "\n", 1) }), $usage, 'one too many');
    stats_are($f, $model, 'nothing has changed');
    table_is($f, $model, '... in the table');
    $f->freeze;
    croaks('_add_text', qr/frozen|read-only/, sub { $f->_add_text($_, "\n") },
        'a frozen filter takes ' . length() . ' bytes') for '', "a\nb";
}

# ---- arguments that run code ------------------------------------------------

{
    my $text = CBFMagic::item("a\nb");
    my $separator = CBFMagic::item("\n");
    my ($f, $n) = with_text($text, $separator);
    is("$n $text->{n} $separator->{n}", '2 1 1', 'objects are asked once');
    my @asked;
    tie my $tied, 'CBFMagic::Tied', "a\nb", sub { push @asked, 'text' };
    tie my $end, 'CBFMagic::Tied', "\n", sub { push @asked, 'separator' };
    ($f, $n) = with_text($tied, $end);
    is("$n @asked", '2 separator text', 'tied scalars, too');
    holds($f, ['a', 'b'], '... and hold what they say');
}
{
    my $f = $CLASS->new(undef, @plan);
    for my $which (0, 1) {
        my @args = ("a\nb", "\n");
        $args[$which] = CBFMagic::item($args[$which], sub { die "no\n" });
        is(error_of(sub { $f->_add_text(@args) }), "no\n",
            ('a text', 'a separator')[$which] . ' that dies');
    }
    is($f->stats->{ops}, 0, '... adds nothing');
}
for my $which (0, 1) {
    my $name = ('a text', 'a separator')[$which];
    must_survive(sub {
        my $f = $CLASS->new(undef, @plan);
        my @args = ("a\nb", "\n");
        $args[$which] = CBFMagic::item($args[$which], sub { undef $f });
        return $f->_add_text(@args);
    }, "$name that drops the filter");
    my $r = guarded(8, sub {
        my $f = $CLASS->new(undef, @plan);
        my @args = ("a\nb", "\n");
        $args[$which] = CBFMagic::item($args[$which], sub { $f->DESTROY });
        return $f->_add_text(@args);
    });
    is(CBFTest::outcome($r), "returned '2'", "$name that destroys it");
}
{
    my $text = 'x' x 100_000;
    my $f = $CLASS->new(undef, @plan);
    my $separator = CBFMagic::item("\n", sub { $text = "a\nb"; return });
    is($f->_add_text($text, $separator), 2,
        'a separator that changes the text comes first');
    holds($f, ['a', 'b'], '... and the text is the new one');
}

done_testing;
