# A frozen file is for reading: it opens without the right to write, answers every
# question, and each way to change it is an error - not a crash on a read-only mapping.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir  = File::Temp->newdir;
my $path = "$dir/seen.cbf";
my @in   = map { "user-$_" } 1 .. 500;

{
    my $f = $CLASS->new($path, 5000, 0.01);
    $f->add_many(\@in);
    $f->add('user-1') for 1 .. 2;
    must_croak(sub { $CLASS->new_readonly($path); 'opened' }, 'a file that is not frozen is not opened read-only');
    is($f->frozen . $f->readonly, '00', 'an ordinary filter is neither frozen nor read-only');
    ok(eval { $f->freeze; 1 }, 'freeze') or diag $@;
    is($f->frozen . $f->readonly, '11', 'now it is both');
    is($f->contains('user-500') . $f->count_of('user-1'), '13', 'it can still be asked');
    must_croak(sub { $f->add('x'); 'added' }, 'but not added to');
    must_croak(sub { $f->freeze; 'frozen again' }, 'nor frozen again');
}
must_croak(sub { $CLASS->new($path, 5000, 0.01); 'opened' }, 'a frozen file is not opened for writing');

for my $mode (0600, 0400) {
    chmod $mode, $path or die $!;
    my $label = sprintf 'mode %04o', $mode;
    my $ro = eval { $CLASS->new_readonly($path) };
    ok($ro, "$label: new_readonly opens it") or diag $@;
    next unless $ro;
    is(scalar(grep { $ro->contains($_) } @in), 500, "$label: everything is found");
    is($ro->count_of('user-1') . $ro->count_of('user-2') . $ro->contains('nobody'), '310', "$label: counts are right");
    is($ro->capacity . ' ' . $ro->fp_rate . ' ' . $ro->hashes . ' ' . $ro->counters, '5000 0.01 7 65536', "$label: the geometry is right");
    cmp_ok(abs($ro->count - 500), '<', 25, "$label: the estimate is right");
    my $s = $ro->stats;
    is("$s->{frozen}$s->{readonly}", '11', "$label: the statistics say frozen and read-only");
    is($ro->path, $path, "$label: the path");
    is($ro->memfd, -1, "$label: no descriptor to give");
    my %mutator = (
        add => sub { $ro->add('x') }, add_many => sub { $ro->add_many(['x', 'y']) }, remove => sub { $ro->remove('user-1') },
        clear => sub { $ro->clear }, merge => sub { $ro->merge($CLASS->new(undef, 5000, 0.01)) }, freeze => sub { $ro->freeze },
    );
    for my $m (sort keys %mutator) {
        my $r = must_croak(sub { $mutator{$m}->(); 'done' }, "$label: $m is an error");
        like($r->{out}, qr/frozen|read-?only|immutable|sealed/i, '... that says why');
    }
    is(scalar(grep { $ro->contains($_) } @in), 500, "$label: nothing has changed");
}

my $sum = $CLASS->new(undef, 5000, 0.01);
my $ro  = $CLASS->new_readonly($path);
ok(eval { $sum->merge($ro); 1 }, 'a frozen filter can be merged into another one') or diag $@;
is($sum->count_of('user-1') . $sum->contains('user-500'), '31', '... with its counts');
is($sum->add('more'), 1, '... which stays writable');

done_testing;
