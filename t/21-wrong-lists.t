# Every method that takes a list, with everything that is none; and every method
# with too few or too many arguments.  The filter stays as it is.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

{
    package Local::Hash;
    sub new { bless {}, shift }
    package Local::Text;
    use overload '""' => sub { 'text' }, fallback => 1;
    sub new { bless [], shift }
}

watchdog;

my @lists = qw(add_many contains_many count_of_many remove_many present absent
    add_if_absent_many);
my @items = qw(add contains count_of remove add_if_absent);
my @plain = qw(clear count capacity counters hashes fp_rate path memfd sync
    freeze frozen readonly stats estimated_fp_rate histogram to_bytes verify
    refresh);

my @geometry = (100, 0.01);
my %make = (
    anonymous => sub { $CLASS->new(undef, @geometry) },
    memfd     => sub { $CLASS->new_memfd('lists', @geometry) },
);
my %bad = (
    'undef'              => undef,
    'an empty string'    => '',
    'a string'           => 'abc',
    'a number'           => 42,
    'a hash reference'   => { a => 1 },
    'a code reference'   => sub { 1 },
    'a scalar reference' => \'x',
    'a glob reference'   => \*STDOUT,
    'a pattern'          => qr/x/,
    'an object built on a hash' => Local::Hash->new,
    'a reference to an array reference' => \['x'],
    'a filter'           => $CLASS->new(undef, 5),
);

for my $kind (sort keys %make) {
    my $f     = $make{$kind}->();
    my $model = CBFModel->new(@geometry);
    $_->add_many([qw(a b c)]) for $f, $model;
    for my $method (@lists) {
        for my $what (sort keys %bad) {
            no warnings;
            croaks($method, qr/array reference/,
                sub { my @got = $f->$method($bad{$what}) },
                "$kind: $method of $what");
        }
    }
    stats_are($f, $model, "$kind: nothing has changed");
    table_is($f, $model, '... in the table');
    is($f->add('usable'), 1, '... and it can be written');
}

# An array is an array, blessed or not.
{
    my $f = $CLASS->new(undef, @geometry);
    is($f->add_many(bless ['a', 'b'], 'Local::List'), 2, 'a blessed array');
    is($f->add_many(Local::Text->new), 0, '... with overloading for text');
}

# The number of arguments.
{
    my $f     = $CLASS->new(undef, @geometry);
    my $model = CBFModel->new(@geometry);
    $_->add('kept') for $f, $model;
    my $usage = sub { qr/\A(?:Usage: )?\Q$CLASS\E(?:->|::)$_[0]\b/ };
    for my $method (@items, @lists, 'merge', 'save') {
        like(error_of(sub { $f->$method }), $usage->($method),
            "$method without an argument");
    }
    for my $method (@items) {
        like(error_of(sub { $f->$method('a', 'b') }), $usage->($method),
            "$method with two items");
    }
    for my $method (@lists) {
        like(error_of(sub { $f->$method(['a'], ['b']) }), $usage->($method),
            "$method with two lists");
    }
    for my $method (@plain) {
        like(error_of(sub { $f->$method('a') }), $usage->($method),
            "$method with an argument");
    }
    stats_are($f, $model, 'nothing has changed');
    table_is($f, $model, '... in the table');
}

done_testing;
