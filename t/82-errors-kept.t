# $@, $!, $? and $_ of the caller: calls that succeed, calls that croak and
# handles that go away leave them alone.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use POSIX ();
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (1000, 0.01);
watchdog(60);

my $dir = File::Temp->newdir;
my $n   = 0;
my @warned;
$SIG{__WARN__} = sub { push @warned, @_ };

my %make = (
    anonymous => sub { $CLASS->new(undef, @PLAN) },
    file      => sub { $CLASS->new("$dir/f" . ++$n, @PLAN) },
    memfd     => sub { $CLASS->new_memfd('kept', @PLAN) },
    frozen    => sub {
        my $f = $CLASS->new("$dir/f" . ++$n, @PLAN);
        $f->freeze;
        return $CLASS->new_readonly("$dir/f$n");
    },
);

my %call = (
    contains      => sub { $_[0]->contains('x') },
    count_of      => sub { $_[0]->count_of('x') },
    contains_many => sub { my @x = $_[0]->contains_many(['x', 'y']) },
    present       => sub { my @x = $_[0]->present(['x', 'y']) },
    count         => sub { $_[0]->count },
    stats         => sub { $_[0]->stats },
    histogram     => sub { $_[0]->histogram },
    to_bytes      => sub { $_[0]->to_bytes },
    verify        => sub { $_[0]->verify },
    path          => sub { $_[0]->path },
);
my %change = (
    add           => sub { $_[0]->add('x') },
    remove        => sub { $_[0]->remove('x') },
    add_many      => sub { $_[0]->add_many(['x', 'y']) },
    remove_many   => sub { $_[0]->remove_many(['x', 'y']) },
    add_if_absent => sub { $_[0]->add_if_absent('x') },
    clear         => sub { $_[0]->clear },
    merge         => sub { $_[0]->merge($_[0]) },
    sync          => sub { $_[0]->sync },
);

for my $kind (sort keys %make) {
    my $f = $make{$kind}->();
    my %all = $kind eq 'frozen' ? %call : (%call, %change);
    my @wrong;
    for my $name (sort keys %all) {
        local $_ = 'topic';
        local $@ = "kept\n";
        local $? = 42;
        $all{$name}->($f);
        push @wrong, $name if $@ ne "kept\n" || $? != 42 || $_ ne 'topic';
    }
    is("@wrong", '', "$kind: calls keep \$\@, \$? and \$_");
}

# Point calls also keep errno, as they make no system call.
for my $kind (sort keys %make) {
    my $f = $make{$kind}->();
    my @wrong;
    for my $name (qw(contains count_of contains_many present)) {
        $! = POSIX::EXDEV();
        $call{$name}->($f);
        push @wrong, $name if $! != POSIX::EXDEV();
    }
    is("@wrong", '', "$kind: point reads keep \$!");
}

# Destruction: by scope, by hand, in an unwinding eval, and of the last of many.
for my $kind (sort keys %make) {
    my $check = sub {
        my ($how, $code) = @_;
        my $f = $make{$kind}->();
        $@ = "kept\n";
        $! = POSIX::EDOM();
        $? = 7;
        $code->($f);
        my @now = ($@, $! + 0, $?);
        $? = 0;
        is("@now", "kept\n " . POSIX::EDOM() . ' 7', "$kind: destroyed $how");
    };
    $check->('by undef', sub { undef $_[0] });
    $check->('by assignment', sub { $_[0] = 1 });
    $check->('by hand', sub { $_[0]->DESTROY });
    $check->('by hand, twice', sub { $_[0]->DESTROY; $_[0]->DESTROY });

    my $text = eval { my $f = $make{$kind}->(); die "thrown\n" } ? '' : $@;
    is($text, "thrown\n", "$kind: an exception passes a dying handle");
    my $object = eval { my $f = $make{$kind}->(); die { code => 42 } } || $@;
    is(ref $object && $object->{code}, 42, "$kind: so does an object");
    $text = eval { my $f = $make{$kind}->(); $f->contains("\x{2603}"); 1 }
        ? '' : $@;
    like($text, qr/\A\Q$CLASS\E->contains: .*Wide character/,
        "$kind: so does the filter's own error");
}

# A croak names the caller's line and can be caught by a nested eval, with
# another error pending around it.
{
    my $f = $CLASS->new(undef, @PLAN);
    eval { die "outer\n" };
    my $inner = do { local $@; eval { $f->add("\x{2603}") }; $@ };
    is($@, "outer\n", 'a caught croak leaves the outer error');
    my $file = __FILE__;
    like($inner, qr/ at \Q$file\E line \d+\.\n\z/, 'a croak says where');
    local $SIG{__DIE__} = sub { die "handled: $_[0]" };
    eval { $f->add("\x{2603}") };
    like($@, qr/\Ahandled: \Q$CLASS\E->add: /, '$SIG{__DIE__} sees it');
}

# At exit, in whatever order things go.
for my $script (
    'our $f = C->new(undef, 100); $f->add(1)',
    'my $f = C->new(undef, 100); my @a = ($f); push @a, \@a',
    'my $f = C->new_memfd("x", 100); $SIG{__WARN__} = sub { $f->add(@_) }',
    'my $f = C->new(undef, 100); END { $f->add(2); undef $f }',
    'package D; our $f; sub DESTROY { $f->add(3) if $f } package main;'
        . '$D::f = C->new(undef, 100); our $d = bless [], "D"',
    'my $f = C->new(undef, 100); exit 0',
) {
    (my $code = $script) =~ s/\bC->/$CLASS->/g;
    my @inc = map { "-I$_" } grep { !ref } @INC;
    open my $out, '-|', $^X, @inc, '-we',
        "open STDERR, '>&', \\*STDOUT; use $CLASS; $code" or die $!;
    my $said = do { local $/; <$out> };
    close $out;
    is((defined $said ? $said : '') . $?, '0', "quiet at exit: $script");
}
is("@warned", '', 'nothing was warned about');

done_testing;
