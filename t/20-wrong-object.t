# Every method on everything that is not a filter: a clear croak that names the
# method, never a crash.  Also merge, whose argument must be a filter.
use strict;
use warnings;
use Test::More;
use Digest::MD5 ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

{
    package Local::Sub;
    our @ISA = ('Data::CountingBloomFilter::Shared');
    package Local::Other;
    sub new { bless {}, shift }
    package Local::Tied;
    sub TIESCALAR { my ($class, $value) = @_; bless \$value, $class }
    sub FETCH     { ${ $_[0] } }
}

watchdog;

# Each method with arguments that a filter would take.
my $path = 'never-made.cbf';
my %args = (
    (map { $_ => ['item'] } qw(add contains count_of remove add_if_absent)),
    (map { $_ => [['item']] } qw(add_many contains_many count_of_many
        remove_many present absent add_if_absent_many)),
    (map { $_ => [] } qw(clear count capacity counters hashes fp_rate path
        memfd sync freeze frozen readonly stats estimated_fp_rate histogram
        to_bytes verify refresh)),
    merge => [$CLASS->new(undef, 100)],
    (map { $_ => ["item\n", "\n"] } qw(_add_text _present_text _absent_text)),
    save  => [$path],
);
# unlink is a class method as well, and told apart below.
my @methods = sort keys %args, 'unlink';
$args{unlink} = [];

my $filter = $CLASS->new(undef, 100);
$filter->add('kept');

# A handle destroyed by hand.
sub destroyed {
    my $f = $CLASS->new(undef, 100);
    $f->add('x');
    $f->DESTROY;
    return $f;
}

# What only looks like a filter.  An object of another module that keeps its own
# C structure the same way is the hardest to tell apart: Digest::MD5's does.
my %forged = (
    'a blessed number'      => bless(\(my $n = 12345), $CLASS),
    'a blessed address'     => bless(\(my $a = $$filter), $CLASS),
    'a blessed string'      => bless(\(my $s = 'x' x 200), $CLASS),
    'a blessed undef'       => bless(\(my $u), $CLASS),
    'a blessed hash'        => bless({}, $CLASS),
    'a blessed array'       => bless([], $CLASS),
    'a blessed code'        => bless(sub { 1 }, $CLASS),
    'a blessed glob'        => bless(\do { local *GLOB; *GLOB }, $CLASS),
    'a blessed pattern'     => bless(qr/x/, $CLASS),
    'a blessed reference'   => bless(\(my $r = $filter), $CLASS),
    'an object of Digest::MD5 blessed again' => bless(Digest::MD5->new, $CLASS),
    'a forged subclass object' => bless(\(my $m = 1), 'Local::Sub'),
    'a destroyed handle'    => destroyed(),
    'a blessed tied scalar' => do {
        tie my $x, 'Local::Tied', $$filter;
        bless \$x, $CLASS;
    },
);
my %stranger = (
    'undef'                => undef,
    'an empty string'      => '',
    'a string'             => 'text',
    'a number'             => 42,
    'a plain hash'         => {},
    'a plain array'        => [],
    'a plain code'         => sub { 1 },
    'a plain scalar ref'   => \1,
    'a glob'               => \*STDOUT,
    'another object'       => Local::Other->new,
    'an object of Digest::MD5' => Digest::MD5->new,
    'the class name'       => $CLASS,
    'a subclass name'      => 'Local::Sub',
);

my $called = quotemeta $CLASS;
for my $method (@methods) {
    my $code = $CLASS->can($method);
    for my $what (sort keys %forged) {
        my $object = $forged{$what};
        like(error_of(sub { $object->$method(@{ $args{$method} }) }),
            qr/\A$called->$method: .* at \Q$0\E line/s, "$method on $what");
        like(error_of(sub { $code->($object, @{ $args{$method} }) }),
            qr/\A$called->$method: /, "... and as a function");
    }
    for my $what (sort keys %stranger) {
        next if $method eq 'unlink' && !ref $stranger{$what};
        like(error_of(sub { $code->($stranger{$what}, @{ $args{$method} }) }),
            qr/\A$called->$method: .* at \Q$0\E line/s,
            "$method as a function on $what");
    }
    like(error_of(sub { $code->() }), qr/\A(?:Usage: )?$called(?:->|::)$method\b/,
        "$method without an object");
}
ok(!-e $path, 'no file was made');

# A filter blessed into something else is none, until it is blessed back.
{
    my $f = $CLASS->new(undef, 100);
    $f->add('x');
    bless $f, 'Local::Other';
    for my $method (qw(add contains stats clear)) {
        like(error_of(sub { $CLASS->can($method)->($f, @{ $args{$method} }) }),
            qr/\A$called->$method: /, "$method of a filter of another class");
    }
    bless $f, 'Local::Sub';
    is($f->contains('x'), 1, '... blessed into a subclass it works');
    bless $f, $CLASS;
    is($f->contains('x') . $f->add('y'), '11', '... and blessed back');
}

# Copies of the scalar behind a handle are not handles; changing it does no harm.
{
    my $f = $CLASS->new(undef, 100);
    $f->add('x');
    my $copy = $$f;
    my $fake = bless \$copy, $CLASS;
    ok(defined error_of(sub { $fake->add('y') }), 'a copied scalar is no filter');
    undef $fake;
    is($f->contains('x'), 1, '... and its end leaves the filter alone');
    eval { $$f = 4711 };
    is(guarded(8, sub { $f->contains('x') })->{sig}, 0,
        'a handle written over by hand does not crash');
}

# Destroying by hand, once or twice, and again by going out of scope.
{
    my $f = $CLASS->new(undef, 100);
    is(error_of(sub { $f->DESTROY }), undef, 'DESTROY by hand');
    is(error_of(sub { $f->DESTROY }), undef, '... again');
    croaks('add', qr/./, sub { $f->add('x') }, '... and it is no filter any more');
    is(error_of(sub { undef $f }), undef, '... going out of scope');
    for my $what (sort keys %forged) {
        my $error = error_of(sub { $CLASS->can('DESTROY')->($forged{$what}) });
        ok(!defined $error, "DESTROY of $what does no harm") or diag $error;
    }
}

# merge: the argument.
{
    my $f     = $CLASS->new(undef, 100);
    my $model = CBFModel->new(100);
    $_->add('kept') for $f, $model;
    for my $what (sort keys %forged) {
        croaks('merge', qr/./, sub { $f->merge($forged{$what}) },
            "merge of $what");
    }
    for my $what (sort keys %stranger) {
        croaks('merge', qr/./, sub { $f->merge($stranger{$what}) },
            "merge of $what");
    }
    like(error_of(sub { $f->merge }), qr/\A(?:Usage: )?$called(?:->|::)merge\b/,
        'merge of nothing');
    table_is($f, $model, 'nothing has changed');
    is($f->stats->{ops}, 1, '... and nothing was counted');
}
is($filter->contains('kept'), 1, 'the filter beside all this is well');

# A subclass object is an object of the class.
{
    my $f = Local::Sub->new(undef, 100);
    my $g = $CLASS->new(undef, 100);
    $f->add('from the subclass');
    is(error_of(sub { $g->merge($f) }), undef, 'merge of a subclass object');
    is($g->contains('from the subclass'), 1, '... takes its items');
}

done_testing;
