# A place in a program that has called a method on a filter's item once calls
# it in a shorter way from then on: whatever comes to that place next must be
# treated as if it did not.
use strict;
use warnings;
use Test::More;
use File::Spec ();
use File::Temp ();
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @METHODS = qw(contains count_of add remove add_if_absent);

sub filter { return $CLASS->new(undef, 1000) }

# One place, and what it gives in list context.
sub call {
    my ($self, $method, @arguments) = @_;
    return $self->$method(@arguments);
}

my @BAD_CALLS = (
    ['no item',        sub { call($_[0], 'contains') },        qr/\AUsage: /],
    ['two items',      sub { call($_[0], 'add', 1, 2) },       qr/\AUsage: /],
    ['a class',        sub { call($CLASS, 'contains', 'a') },
        qr/\A\Q$CLASS\E->contains: not a \Q$CLASS\E object at /],
    ['a wide item',    sub { call($_[0], 'add', "\x{100}") },
        qr/\A\Q$CLASS\E->add: Wide character /],
    ['no such method', sub { call($_[0], 'none', 1) },
        qr/\ACan't locate object method "none" via /],
);

# The place has got used to this module.
sub accustom {
    my $f = filter();
    call($f, $_, 'x') for (@METHODS) x 2;
    return $f;
}

{
    my $f = accustom();
    my %want = (contains => 1, count_of => 2, add => 0, remove => 1,
        add_if_absent => 0);
    for my $method (@METHODS) {
        my $f = filter();
        $f->add('k') for 1 .. 2;
        is_deeply([call($f, $method, 'k')], [$want{$method}],
            "$method of an item that is there twice");
        is($f->count_of('k'), {add => 3, remove => 1}->{$method} // 2,
            "$method did what it does");
    }
    for my $bad (@BAD_CALLS) {
        my ($what, $code, $message) = @$bad;
        my @got = eval { $code->($f) };
        like($@, $message, "$what: refused");
        is(call($f, 'contains', 'x'), 1, "$what: the place works on");
    }
    ok(!call($f, 'isa', 'Nope'), 'a sub of perl that takes one argument');
    is(call($f, 'count_of', 'Nope'), 0, 'is no add');
    is(call($f, 'can', 'contains'), $CLASS->can('contains'), 'nor is can');
    is(scalar(my @none = call($f, 'clear')), 0, 'another method');
    is(call($f, 'contains', 'x'), 0, 'has been called');
    is_deeply([call($f, 'count_of_many', [1, 2])], [0, 0], 'and a batch');
}

{
    package Counting;
    our @ISA = ($CLASS);
    our $calls = 0;
    sub contains { $calls++; my $self = shift; return $self->SUPER::contains(@_) }

    package Stranger;
    sub new { return bless [], shift }
    sub contains { return "stranger @_[1 .. $#_]" }
    sub add      { return wantarray }
}

{
    my $f = accustom();
    my $sub = Counting->new(undef, 1000);
    $sub->add('a');
    is(call($sub, 'contains', 'a'), 1, 'a subclass with a method of its own');
    is($Counting::calls, 1, 'is called');
    is(call($sub, 'add', 'a'), 0, 'and one that it inherits');
    is(call(Stranger->new, 'contains', 'a', 'b'), 'stranger a b',
        'an object of another class');
    is(scalar(call(Stranger->new, 'add')), '', 'its scalar context');
    is((call(Stranger->new, 'add'))[0], 1, 'its list context');
    is(call(Stranger->new, 'contains'), 'stranger ', 'and no argument');
    is(call($f, 'contains', 'x'), 1, 'and again a filter');
    bless $f, 'Stranger';
    is(call($f, 'contains', 'y'), 'stranger y', 'a filter blessed away');
    bless $f, 'Counting';
    is(call($f, 'contains', 'x'), 1, 'and into a subclass');
    is($Counting::calls, 2, 'with its own method');
    bless $f, $CLASS;
    is(call($f, 'contains', 'x'), 1, 'and back');
}

{
    my $f = accustom();
    no warnings 'redefine';
    my $real = $CLASS->can('contains');
    {
        no strict 'refs';
        local *{"${CLASS}::contains"} = sub { return 'replaced' };
        is(call($f, 'contains', 'x'), 'replaced', 'a method replaced');
    }
    is(call($f, 'contains', 'x'), 1, 'and put back');
    is($f->$real('x'), 1, 'called by reference');
    is(&$real($f, 'x'), 1, 'and as a function');
    my $pass = sub { return &$real };
    is($pass->($f, 'x'), 1, 'with the arguments of the caller') for 1 .. 2;
    my $jump = sub { goto &$real };
    is($jump->($f, 'x'), 1, 'jumped to') for 1 .. 2;
    is(join(' ', map { $_->($f, 'x') } ($real, sub { 'a sub' }, $real)),
        '1 a sub 1', 'subs of all kinds by turns');
    is(join(' ', 'a', $f->contains('x'), 'b', call($f, 'contains', 'y'), 'c'),
        'a 1 b 0 c', 'in the middle of a list') for 1 .. 2;
    is("@{[ 1, [ 2, $f->contains('x'), 3 ]->[2], $f->contains('y') ]}",
        '1 3 0', 'and of lists in lists') for 1 .. 2;
    my @found = grep { $f->contains($_) } qw(x y x);
    is("@found", 'x x', 'in grep');
    my @sorted = sort { $f->contains($b) <=> $f->contains($a) } qw(y x);
    is("@sorted", 'x y', 'in a sort block');
    my %answer = map { $_ => $f->contains($_) } qw(x y);
    is_deeply(\%answer, { x => 1, y => 0 }, 'each answer a value of its own');
    my @kept = map { \$f->contains($_) } qw(x y);
    is("${$kept[0]} ${$kept[1]}", '1 0', 'references to answers, too');
    $_++ for my @copy = map { $f->contains($_) } qw(x y);
    is("@copy", '2 1', 'answers can be changed');
}

# What is passed.
{
    package Loud;
    use overload '""' => sub { $Loud::asked++; return ${ $_[0] } };

    package Tied;
    sub TIESCALAR { my ($class, @values) = @_; return bless \@values, $class }
    sub FETCH { return shift @{ $_[0] } }
}

{
    my $f = accustom();
    my $loud = bless \(my $text = 'x'), 'Loud';
    is(call($f, 'contains', $loud), 1, 'an object with a string form');
    is($Loud::asked, 1, 'asked once');
    tie my $tied, 'Tied', 'x', 'y';
    is($f->contains($tied), $_, 'a tied variable') for 1, 0;
    my $end = 'x';
    is($f->contains("$end"), 1, 'a string made for the call');
    is($f->contains('' . substr "axb", 1, 1), 1, 'a part of one');
    $f->add(17);
    is($f->contains(17), 1, 'a number');
    is($f->contains('17'), 1, 'is its digits');
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    is($f->contains(undef), 0, 'undef') for 1 .. 2;
    is(scalar(grep { /\AUse of uninitialized value/ } @warnings), 2,
        'with a warning each time');
    my %none;
    is($f->contains($none{there}), 0, 'an element that is not there');
    is(scalar(keys %none), 0, 'and is not made');
}

# An argument's code that destroys the filter, and one that dies.
{
    package Wrecker;
    use overload '""' => sub { $_[0]->(); return 'x' };
}

for my $round (1 .. 2) {
    my $f = accustom();
    my $wrecker = bless sub { undef $f }, 'Wrecker';
    is(call($f, 'contains', $wrecker), 1, 'a filter destroyed meanwhile');
    my $g = accustom();
    my $dying = bless sub { die "enough\n" }, 'Wrecker';
    ok(!eval { call($g, 'add', $dying); 1 }, 'an argument that dies');
    is($@, "enough\n", 'with its own words');
    is(call($g, 'count_of', 'x'), $g->count_of('x'), 'and the place works on');
}

# Errors of the core; the line they name is the caller's.
{
    my $f = accustom();
    $f->freeze;
    my @at = map { eval { call($f, $_, 'x') }; $@ } qw(add remove);
    like($at[0], qr/\A\Q$CLASS\E->add: .*(?:frozen|read-only).* at \Q$0\E line \d+\.$/,
        'a frozen filter');
    like($at[1], qr/\A\Q$CLASS\E->remove: /, 'by the name of each method');
    is(call($f, 'contains', 'x'), 1, 'still answers');
    $f->DESTROY;
    like(eval { call($f, 'contains', 'x') } // $@, qr/is destroyed at /,
        'a destroyed one does not');
}

# A debugger sees every call, also if it is switched on at run time.
sub output_of {
    my ($program, @options) = @_;
    my @libs = map { '-I' . File::Spec->rel2abs($_) } grep { !ref } @INC;
    open my $in, '-|', $^X, @libs, @options, '-e', $program
        or die "fork: $!";
    my $seen = join '', <$in>;
    close $in;
    return $seen;
}

{
    my $debugger = <<'END';
package DB;
our ($sub, %calls);
sub DB { }
sub sub { my $name = "$sub"; $calls{$name}++; no strict 'refs'; return &$sub }
package Devel::CountCalls;
1;
END
    my $dir = File::Temp->newdir;
    mkdir "$dir/Devel" or die "mkdir: $!";
    open my $out, '>', "$dir/Devel/CountCalls.pm" or die "open: $!";
    print {$out} $debugger;
    close $out or die "close: $!";
    is(output_of(<<"END", "-I$dir", '-d:CountCalls'), "3 3\n", 'a debugger sees every call');
use $CLASS;
my \$f = $CLASS->new(undef, 100);
\$f->add(\$_), \$f->contains(\$_) for 1 .. 3;
print "\$DB::calls{'${CLASS}::add'} \$DB::calls{'${CLASS}::contains'}\\n";
END
    is(output_of(<<"END"), "5\n", 'and one that comes later, where it may');
BEGIN { \$^P = 1 }
use $CLASS;
my \$f = $CLASS->new(undef, 100);
sub place { return \$f->contains(1) }
\$^P = 0;
place() for 1 .. 3;
eval <<'DEBUGGER' or die;
$debugger
DEBUGGER
\$^P = 1;
place() for 1 .. 5;
print "\$DB::calls{'${CLASS}::contains'}\\n";
END
}

done_testing();
