# Tied, overloaded and otherwise magical arguments are read exactly once and used by
# the value that reading gave.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

{
    package Local::Counter;     # a different value at every FETCH
    sub TIESCALAR { my ($c, $p) = @_; bless { p => $p, n => 0 }, $c }
    sub FETCH     { my $s = shift; $s->{n}++; "$s->{p}$s->{n}" }
    sub STORE     { die "stored into" }

    package Local::Fixed;       # a fixed value of any kind
    sub TIESCALAR { my ($c, $v) = @_; bless { v => $v, n => 0 }, $c }
    sub FETCH     { my $s = shift; $s->{n}++; $s->{v} }
    sub STORE     { die "stored into" }

    package Local::List;        # an array that computes its elements
    sub TIEARRAY  { my ($c, $size) = @_; bless { size => $size, n => 0 }, $c }
    sub FETCHSIZE { $_[0]{size} }
    sub FETCH     { my ($s, $i) = @_; $s->{n}++; "tied-$i" }
    sub STORE     { die "stored into" }

    package Local::Str;
    use overload '""' => sub { $_[0]{n}++; $_[0]{text} }, fallback => 1;
    sub new { my ($c, $t) = @_; bless { text => $t, n => 0 }, $c }
}

watchdog;

my $f = $CLASS->new(undef, 10_000, 1e-6);

for my $m (qw(add contains count_of remove)) {
    my $obj = tie my $x, 'Local::Counter', "$m-";
    $f->add("$m-1");
    my $got = $f->$m($x);
    is($obj->{n}, 1, "$m reads a tied scalar once");
    is($got, $m eq 'add' ? 0 : 1, "... and works on the value it read");
}

{
    my $obj = tie my @list, 'Local::List', 40;
    is($f->add_many(\@list), 40, 'add_many walks a tied array');
    is($obj->{n}, 40, '... fetching every element once');
    is(scalar(grep { $f->count_of("tied-$_") == 1 } 0 .. 39), 40, '... and adds them all');
}
{
    my @o;
    my @arr = ('plain', undef, undef);
    $o[0] = tie $arr[1], 'Local::Counter', 'elem-';
    $o[1] = tie $arr[2], 'Local::Fixed', 'fixed';
    is($f->add_many(\@arr), 3, 'add_many takes tied elements');
    is("$o[0]{n} $o[1]{n}", '1 1', '... reading each once');
    is($f->contains('elem-1') . $f->contains('fixed') . $f->contains('elem-0'), '110', '... with the value read');
}
{
    my $obj = tie my $ref, 'Local::Fixed', ['via-1', 'via-2'];
    my $n = eval { $f->add_many($ref) };
    is($n, 2, 'an array reference coming out of a tied scalar is taken') or diag $@;
    is($f->contains('via-1') . $f->contains('via-2'), '11', '... and its items are added');
}
{
    my $o = Local::Str->new("over\0loaded\xe9");
    is($f->add($o), 1, 'an object with string overloading');
    is($f->contains("over\0loaded\xe9"), 1, '... is added as its string');
    is($o->{n}, 1, '... asked for once');
    is($f->add_many([$o, Local::Str->new('second')]), 1, '... in a batch as well');
    is($f->contains('second'), 1, '... every one of them');
    my $w = Local::Str->new("\x{2603}");
    must_croak(sub { $f->add($w) }, 'a wide string out of an overloaded object is refused');
    my $up = "up\xe9";
    utf8::upgrade($up);
    $f->add(Local::Str->new($up));
    is($f->contains("up\xe9"), 1, 'an upgraded string out of an object is the same item as its bytes');
}
if ("key=value" =~ /(\w+)=(\w+)/) {
    $f->add($2);
    is($f->contains('value'), 1, 'a capture variable');
    is($f->add_many([$1]), 1, '... and a copy of one in a batch');
    "other" =~ /(o)/;
}
{
    my $s = 'abcdef';
    is($f->add(substr $s, 2, 2), 1, 'a substr lvalue');
    is($f->contains('cd'), 1, '... is the part');
    my %h = (list => ['h1', 'h2'], key => 'h3');
    is($f->add_many($h{list}) + $f->add($h{key}), 3, 'hash elements');
    local $_ = 'topic';
    $f->add($_) for 'aliased';
    is($f->contains('aliased') . $_, '1topic', 'an aliased loop variable, and $_ is left alone');
}
for my $pair ([42, '42'], [-7, '-7'], [1e3, '1000'], [1.5, '1.5'], [0, '0'], [18446744073709551615, '18446744073709551615'], [0.1 + 0.2, '0.3'], [1e21, '1e+21']) {
    my ($num, $str) = @$pair;
    $f->clear;
    $f->add($num);
    is($f->contains($str), 1, "the number $str is the item '$str'");
    is($num + 0, $pair->[0] + 0, '... and stays a number');
}

# constructor arguments are magical too
{
    '5000 0.001' =~ /(\d+) (\S+)/;
    my $g = $CLASS->new(undef, $1, $2);
    is($g->capacity . ' ' . $g->fp_rate, '5000 0.001', 'capture variables as capacity and rate');
    my $dir = File::Temp->newdir;
    my $o = tie my $p, 'Local::Fixed', "$dir/tied.cbf";
    $g = $CLASS->new($p, 100);
    ok(-e "$dir/tied.cbf", 'a tied path');
    is($g->path, "$dir/tied.cbf", '... is reported');
    my $po = Local::Str->new("$dir/object.cbf");
    $g = eval { $CLASS->new($po, 100) };
    ok($g && -e "$dir/object.cbf", 'a path object with string overloading') or diag $@;
    tie my $other, 'Local::Fixed', $CLASS->new(undef, 100);
    $other->add('merged');
    my $n = $CLASS->new(undef, 100);
    ok(eval { $n->merge($other); 1 }, 'merge takes a filter out of a tied scalar') or diag $@;
    is($n->contains('merged'), 1, '... and merges it');
}

done_testing;
