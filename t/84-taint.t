# Taint mode: the module loads, tainted items and paths work as their values do,
# and nothing that was tainted changes which item it is.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

watchdog(60);
my $dir = File::Temp->newdir;

# Runs the code under -T; %ENV has a tainted ITEM.  What it prints.
sub tainted {
    my ($code) = @_;
    my ($fh, $name) = File::Temp::tempfile(DIR => "$dir", SUFFIX => '.pl');
    print {$fh} <<'START', $code;
use strict;
use warnings;
use Scalar::Util 'tainted';
use Data::CountingBloomFilter::Shared;
my $CLASS = 'Data::CountingBloomFilter::Shared';
my $item = $ENV{ITEM};
die "not tainted\n" unless tainted($item);
START
    close $fh or die $!;
    local $ENV{ITEM} = "it\xe9m\t1";
    local $ENV{DIR}  = "$dir";
    my @inc = map { "-I$_" } grep { !ref } @INC;
    open my $out, '-|', $^X, '-T', @inc, $name, "$dir" or die $!;
    my $said = do { local $/; <$out> };
    close $out;
    return $? ? "exit $?" : $said;
}

SKIP: {
    skip 'this perl was built without taint support', 5
        if tainted('print "yes"') ne 'yes';

    is(tainted(<<'CODE'), '1 1 1 0', 'a tainted item is its bytes');
my $f = $CLASS->new(undef, 100);
print join ' ', $f->add($item), $f->contains("it\xe9m\t1"),
    $f->count_of($item), $f->contains('else');
CODE

    is(tainted(<<'CODE'), '2 2 2 0 1', 'so it is in batches');
my $f = $CLASS->new(undef, 100);
my @list = ($item, 'plain', $item);
print join ' ', $f->add_many(\@list), $f->count_of($item),
    $f->remove_many([$item, $item]), $f->contains($item),
    scalar $f->absent([$item, 'plain']);
CODE

    is(tainted(<<'CODE'), "yes yes", 'elements handed back are the elements');
my $f = $CLASS->new(undef, 100);
my @new = $f->add_if_absent_many([$item, "upgraded\xe9"]);
print join ' ', map { $_ ? 'yes' : 'no' } tainted($new[0]), @new == 2;
CODE

    is(tainted(<<'CODE'), '128 1', 'tainted numbers plan a filter');
my $none = substr $item, 0, 0;
my $f = $CLASS->new(undef, 10 . $none, '0.01' . $none);
print join ' ', $f->counters, $f->add('x');
CODE

    is(tainted(<<'CODE'), 'refused or made', 'a tainted path is no crash');
my $path = "$ARGV[0]/tainted.cbf";
my $f = eval { $CLASS->new($path, 100) };
print $f && $f->path eq $path || $@ =~ /\A$CLASS->new: .*|Insecure/
    ? 'refused or made' : "neither: $@";
CODE
}

done_testing;
