# All constructors work for subclasses: the object is one, its methods can be
# extended, and no class is confused with another.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

{
    package Local::Words;
    our @ISA = ('Data::CountingBloomFilter::Shared');
    sub add { my ($self, $word) = @_; $self->SUPER::add(lc $word) }
    sub contains { my ($self, $word) = @_; $self->SUPER::contains(lc $word) }

    package Local::Words::Deep;
    our @ISA = ('Local::Words');

    package Local::Own;    # with a destructor of its own
    our @ISA = ('Data::CountingBloomFilter::Shared');
    our $destroyed = 0;
    sub DESTROY { $destroyed++; $_[0]->SUPER::DESTROY }
}

watchdog;

my $dir = File::Temp->newdir;
my $n   = 0;

for my $class ($CLASS, 'Local::Words', 'Local::Words::Deep', 'Local::Own') {
    my $path  = "$dir/" . ++$n;
    my $memfd = $CLASS->new_memfd('subclass', 100);
    my $image = $memfd->to_bytes;
    $CLASS->new(undef, 100)->save("$path.frozen");
    my %make = (
        new            => sub { $class->new(undef, 100) },
        'new (file)'   => sub { $class->new($path, 100) },
        new_memfd      => sub { $class->new_memfd('x', 100) },
        new_from_fd    => sub { $class->new_from_fd($memfd->memfd) },
        new_from_bytes => sub { $class->new_from_bytes($image) },
        new_readonly   => sub { $class->new_readonly("$path.frozen") },
    );
    for my $way (sort keys %make) {
        my $f = $make{$way}->();
        is(ref $f, $class, "$class, $way: of that class");
        isa_ok($f, $CLASS, '... and');
        is($f->capacity . ' ' . $f->counters, '100 1024', '... with its methods');
        next if $f->readonly;
        is($f->add('Word'), 1, '... which work');
        is($f->contains('Word') . $f->contains('word'),
            $class =~ /Words/ ? '11' : '10', '... extended where they are');
    }
    is(ref $class->geometry(100), 'HASH', "$class, geometry");
    is(error_of(sub { $class->unlink($path) }), undef, "$class, unlink");
    ok(!-e $path, '... removes the file');
}
cmp_ok($Local::Own::destroyed, '>=', 6, 'a destructor of its own runs');

# The name in front of an error is the class asked, or the one that has the
# method.
for my $case (
    [new          => sub { Local::Words->new(undef, 0) }],
    [new_memfd    => sub { Local::Words->new_memfd('x', 0) }],
    [new_from_fd  => sub { Local::Words->new_from_fd(-1) }],
    [new_readonly => sub { Local::Words->new_readonly("$dir/none") }],
    [new_from_bytes => sub { Local::Words->new_from_bytes('') }],
    [geometry     => sub { Local::Words->geometry(0) }],
    [add_many     => sub { Local::Words->new(undef, 5)->add_many('text') }],
) {
    my ($method, $code) = @$case;
    like(error_of($code), qr/\A(?:Local::Words|\Q$CLASS\E)->$method: /,
        "$method: an error of a subclass has the same shape");
}

# Constructors need a class.
for my $case ([new => undef, 5], [new_memfd => 'x', 5], [new_from_fd => 0],
    [new_readonly => "$dir/none"], [new_from_bytes => ''], [geometry => 5]) {
    my ($method, @args) = @$case;
    my $code = $CLASS->can($method);
    my $r = guarded(8, sub { $code->() });
    ok($r->{died}, "$method as a function without anything") or diag outcome($r);
    no warnings;
    $r = guarded(8, sub { my $f = $code->(undef, @args); ref $f });
    ok(!$r->{sig} && !$r->{hung}, "$method as a function on undef: no crash")
        or diag outcome($r);
}

done_testing;
