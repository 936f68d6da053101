package CBFCopy;

# What the tests of stored and restored filters share: filters of every kind
# with the same items, the model of them, and what a good copy is.

use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use Test::More ();
use CBFModel ();
use CBFTest;
use Data::CountingBloomFilter::Shared;

{
    package Local::Sub;
    our @ISA = ('Data::CountingBloomFilter::Shared');
}

our @EXPORT = qw($dir @geometry $model %make filled copy_ok);

our $dir      = File::Temp->newdir;
our @geometry = (200, 0.01);
our $model    = CBFModel->new(@geometry);

our %make = (
    anonymous => sub { $CLASS->new(undef, @geometry) },
    file      => sub { $CLASS->new("$dir/file.cbf", @geometry) },
    memfd     => sub { $CLASS->new_memfd('store', @geometry) },
    subclass  => sub { Local::Sub->new(undef, @geometry) },
);

# A filter, or a model, with the items.
sub filled {
    my ($f) = @_;
    $f->add_many([map { "item $_" } 1 .. 150]);
    $f->add_many([('often') x 20]);
    return $f;
}
filled($model);

# $copy is an independent copy of $f; $fresh is an item that neither has.
sub copy_ok {
    my ($copy, $f, $fresh, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    Test::More::is(ref $copy, ref $f, "$name: a filter of the same class");
    table_is($copy, $model, '... that holds the same');
    stats_are($copy, $model, '... with the same statistics');
    Test::More::is($copy->path, undef, '... without a path');
    Test::More::is($copy->add($fresh), 1, '... can be written');
    Test::More::is($f->contains($fresh), 0, '... and is independent');
    return;
}

1;
