# Thousands of opens and closes, one after the other and many at a time: no
# descriptor, mapping, slot or memory is left, by any constructor, in order or
# out of it, by parents or children.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (300, 0.01);
watchdog(90);

my $dir = File::Temp->newdir;
sub fds { opendir my $d, '/proc/self/fd' or die $!; return scalar(() = readdir $d) }
sub maps { open my $fh, '<', '/proc/self/maps' or die $!; return scalar grep { / r[w-]-s / } <$fh> }

sub pages {
    open my $fh, '<', '/proc/self/statm' or die $!;
    return (split ' ', scalar <$fh>)[1];
}

my $keeper = $CLASS->new_memfd('keeper', @PLAN);
$keeper->add('kept');
my $image = $keeper->to_bytes;
my $path  = "$dir/live.cbf";
{ my $f = $CLASS->new($path, @PLAN); $f->add('kept') }
my $sealed = "$dir/sealed.cbf";
{ my $f = $CLASS->new($sealed, @PLAN); $f->add('kept'); $f->freeze }

my %open = (
    'new, anonymous' => sub { $CLASS->new(undef, @PLAN) },
    'new, a file'    => sub { $CLASS->new($path, @PLAN) },
    'new_memfd'      => sub { $CLASS->new_memfd('many', @PLAN) },
    'new_from_fd'    => sub { $CLASS->new_from_fd($keeper->memfd) },
    'new_readonly'   => sub { $CLASS->new_readonly($sealed) },
    'new_from_bytes' => sub { $CLASS->new_from_bytes($image) },
);

my ($fds, $maps) = (fds(), maps());
for my $name (sort keys %open) {
    my $make = $open{$name};
    my $use = sub { $_[0]->contains('kept'); $_[0]->count; $_[0] };
    $use->($make->()) for 1 .. 300;
    my $before = pages();
    $use->($make->()) for 1 .. 2000;
    my $grown = pages() - $before;
    cmp_ok($grown, '<', 60, "$name: 2000 times without memory");
    is(fds(), $fds, "$name: ... or a descriptor");
    is(maps(), $maps, "$name: ... or a mapping");
}

# Many at a time, closed in three orders.
for my $name (sort keys %open) {
    for my $order ('first', 'last', 'mixed') {
        my @f = map { $open{$name}->() } 1 .. 150;
        $_->count for @f;
        is(maps(), $maps + 150, "$name: 150 at a time") if $order eq 'first';
        if ($order eq 'first') { shift @f while @f }
        elsif ($order eq 'last') { pop @f while @f }
        else { splice @f, ($_ * 7) % @f, 1 while @f && $_ }
        undef @f;
        is(fds() . ' ' . maps(), "$fds $maps", "$name: closed $order first");
    }
}

# Slots of the file while one handle stays open.
{
    my $f = $CLASS->new($path, @PLAN);
    my $fh = handle_on($path);
    $f->count;
    my $taken = sub {
        my $slots = substr header_of($fh), $CBFProc::AT{slots}, 16_384;
        return scalar grep { $_ } unpack '(L x12)*', $slots;
    };
    my $one = $taken->();
    cmp_ok($one, '<=', 1, 'one handle has one slot at most');
    for (1 .. 1500) {
        my $g = $CLASS->new($path, @PLAN);
        $g->count;
        $g->add('x');
        $g->remove('x');
    }
    is($taken->(), $one, '1500 others leave no slot taken');
    my @r = together(8, 20, sub {
        for (1 .. 60) {
            my $g = $CLASS->new($path, @PLAN);
            $g->count;
            $g->add('x');
            $g->remove('x');
        }
        $f->count;
        undef $f;
        return 'done';
    });
    is(scalar(grep { outcome($_) eq 'returned done' } @r), 8,
        'eight processes that open and close');
    is($taken->(), $one, '... leave none either');
    is($f->stats->{items}, 1, '... and changed nothing');
    undef $f;
    ok(lock_words(bytes_of($path)) !~ /[^\0]/, 'the last close leaves zeros');
}

# Destroyed by hand, twice, then by scope.
for (1 .. 500) {
    my $f = $open{'new, a file'}->();
    $f->DESTROY;
    $f->DESTROY;
}
is(fds() . ' ' . maps(), "$fds $maps", 'destroyed by hand');

# Unlinked while open, removed by others, replaced.
for my $n (1 .. 200) {
    my $p = "$dir/gone-$n.cbf";
    my $f = $CLASS->new($p, @PLAN);
    if    ($n % 3 == 0) { $f->unlink }
    elsif ($n % 3 == 1) { unlink $p or die $! }
    else { rename $p, "$dir/other.cbf" or die $! }
    $f->add('x');
}
is(fds() . ' ' . maps(), "$fds $maps", 'files that are gone');

# save and refresh keep none either.
{
    my $p = "$dir/published.cbf";
    $keeper->save($p);
    my $ro = $CLASS->new_readonly($p);
    my ($fds, $maps) = (fds(), maps());
    my $switched = 0;
    for my $n (1 .. 60) {
        $keeper->add("version-$n");
        $keeper->save($p);
        $switched += $ro->refresh;
        $switched += $ro->refresh;
        $ro->contains("version-$n") or die 'an old version';
    }
    is($switched, 60, 'refresh switched once for each save');
    is(fds() . ' ' . maps(), "$fds $maps", '... and kept nothing open');
    is(scalar(() = glob "$dir/*published*"), 1, '... and no file beside it');
}

done_testing;
