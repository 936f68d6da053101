# A handle that goes out of scope must not change $@, $! or $?, so an error that is
# being handled while it is destroyed is not lost.
use strict;
use warnings;
use Test::More;
use POSIX ();
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my $n   = 0;
my $keeper = $CLASS->new_memfd('keeper', 100);
my %make = (
    anonymous  => sub { $CLASS->new(undef, 1000) },
    file       => sub { $CLASS->new("$dir/f" . ++$n, 1000) },
    memfd      => sub { $CLASS->new_memfd('m', 1000) },
    'from fd'  => sub { $CLASS->new_from_fd($keeper->memfd) },
    'unlinked file' => sub { my $f = $CLASS->new("$dir/f" . ++$n, 1000); $f->unlink; $f },
    'file removed behind its back' => sub { my $p = "$dir/f" . ++$n; my $f = $CLASS->new($p, 1000); unlink $p or die $!; $f },
);
my @warned;
local $SIG{__WARN__} = sub { push @warned, @_ };

for my $kind (sort keys %make) {
    my $f = $make{$kind}->();
    $f->add('x');
    $@ = "kept\n";
    $! = POSIX::EXDEV();
    $? = 42;
    undef $f;
    my ($err, $no, $st) = ($@, $! + 0, $?);
    is($err, "kept\n", "$kind: \$\@ survives the destruction");
    is($no, POSIX::EXDEV(), "$kind: \$! survives");
    is($st, 42, "$kind: \$? survives");
    $? = 0;

    my $ok = eval {
        my $inner = $make{$kind}->();
        $inner->add('y');
        die { code => 'inner' };
    };
    is(ref $@ eq 'HASH' ? $@->{code} : $@, 'inner', "$kind: an exception thrown past the handle arrives whole");

    my $str = eval { my $inner = $make{$kind}->(); $inner->add("\x{2603}"); 1 } ? 'none' : $@;
    like($str, qr/Wide character/i, "$kind: an error of the handle itself arrives whole");

    $! = 0;
    { my $inner = $make{$kind}->(); $inner->contains('z'); $! = POSIX::EDOM(); }
    is($! + 0, POSIX::EDOM(), "$kind: errno set in the block survives leaving it");
}
is(scalar @warned, 0, 'nothing was warned about') or diag @warned;

done_testing;
