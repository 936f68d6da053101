# Loops over every way to fail and to succeed: no descriptor, no mapping, no
# reference and no memory is left behind.  Opening and closing is 87's.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (500, 0.01);
watchdog(90);

plan skip_all => 'memory is counted by another tool here'
    if $ENV{CBF_TEST_SLOW};

my $dir = File::Temp->newdir;

sub fds { opendir my $d, '/proc/self/fd' or die $!; return scalar(() = readdir $d) }

# All our mappings are shared ones; perl's own memory comes and goes.
sub maps { open my $fh, '<', '/proc/self/maps' or die $!; return scalar grep { / r[w-]-s / } <$fh> }

sub pages {
    open my $fh, '<', '/proc/self/statm' or die $!;
    return (split ' ', scalar <$fh>)[1];
}

# Runs the code until it is warm, then again: the pages it grew by.  A leak of
# one scalar a round would show as more than 100.
sub grown {
    my ($code, $rounds) = @_;
    $code->() for 1 .. $rounds / 4 + 10;
    my $before = pages();
    $code->() for 1 .. $rounds;
    return pages() - $before;
}

my $ROUNDS = 15_000;
my $LIMIT  = 60;

{
    package Local::Str;
    use overload '""' => sub { my $s = $_[0]{text}; $s }, fallback => 1;
    package Local::Die;
    use overload '""' => sub { die "no\n" }, fallback => 1;
    package Local::Tied;
    sub TIESCALAR { my ($c, $v) = @_; bless \$v, $c }
    sub FETCH { ${ $_[0] } }
}

my $f = $CLASS->new(undef, @PLAN);
my $other = $CLASS->new(undef, 50_000, 0.01);
my $frozen = do { my $g = $CLASS->new(undef, @PLAN); $g->freeze; $g };
my $dead = do { my $g = $CLASS->new(undef, @PLAN); $g->DESTROY; $g };
my $wide = "snow\x{2603}";
(my $up = "caf\xe9" x 20) .= "\x{2603}";
chop $up;
my $str = bless { text => 'overloaded' }, 'Local::Str';
my $die = bless {}, 'Local::Die';
tie my $tied, 'Local::Tied', 'tied value';
my @items = map { "item-$_" } 1 .. 20;
my @mixed = ('plain', $up, $str, 42, 1.5, \@items);
push @mixed, undef;
tie $mixed[-1], 'Local::Tied', 'tied element';
my @with_wide = (@items, $str, $up, $wide);
my @with_die  = (@items, $str, $up, $die);
my @missing   = map { "missing-$_" } 1 .. 20;
$f->add_many([@items, @mixed]);

my %call = (
    'add'             => sub { $f->add('x') },
    'add, upgraded'   => sub { $f->add($up) },
    'add, overloaded' => sub { $f->add($str) },
    'add, tied'       => sub { $f->add($tied) },
    'add, a number'   => sub { $f->add(my $n = 1.25) },
    'add_many'        => sub { $f->add_many(\@mixed) },
    '_add_text'       => sub { $f->_add_text("a\nb\n", "\n") },
    '_add_text, upgraded'   => sub { $f->_add_text($up, "\n") },
    '_add_text, overloaded' => sub { $f->_add_text($str, 'o') },
    '_present_text'   => sub { my @x = $f->_present_text("item-1\nx", "\n") },
    '_absent_text'    => sub { my $x = $f->_absent_text($up, "\n") },
    'add_many, void'  => sub { $f->add_many(\@items); 1 },
    'remove_many'     => sub { $f->remove_many(\@missing) },
    'contains_many'   => sub { my @x = $f->contains_many(\@mixed) },
    'contains_many, scalar' => sub { my $x = $f->contains_many(\@mixed) },
    'count_of_many'   => sub { my @x = $f->count_of_many(\@mixed) },
    'present'         => sub { my @x = $f->present(\@mixed) },
    'present, scalar' => sub { my $x = $f->present(\@mixed) },
    'absent'          => sub { my @x = $f->absent(\@missing) },
    'add_if_absent'   => sub { $f->add_if_absent('x') },
    'add_if_absent_many' => sub { my @x = $f->add_if_absent_many(\@mixed) },
    'stats'           => sub { my $s = $f->stats },
    'histogram'       => sub { my $s = $f->histogram },
    'path and memfd'  => sub { $f->path; $f->memfd },
    'geometry'        => sub { my $s = $CLASS->geometry(@PLAN) },
);
my %croak = (
    'add, wide'          => sub { $f->add($wide) },
    'add, dying'         => sub { $f->add($die) },
    'contains, wide'     => sub { $f->contains($wide) },
    'add, no argument'   => sub { $f->add },
    'add_many, wide'     => sub { $f->add_many(\@with_wide) },
    'add_many, dying'    => sub { $f->add_many(\@with_die) },
    'add_many, no array' => sub { $f->add_many('x') },
    'contains_many, wide' => sub { my @x = $f->contains_many(\@with_wide) },
    'present, dying'     => sub { my @x = $f->present(\@with_die) },
    'add_if_absent_many, wide' => sub { my @x = $f->add_if_absent_many(\@with_wide) },
    '_add_text, wide'    => sub { $f->_add_text($wide, "\n") },
    '_present_text, dying' => sub { my @x = $f->_present_text("x\n", $die) },
    '_add_text, dying'   => sub { $f->_add_text("x\n", $die) },
    '_add_text, separator' => sub { $f->_add_text("x\n", 'xx') },
    'frozen _add_text'   => sub { $frozen->_add_text("x\n", "\n") },
    'merge, mismatch'    => sub { $f->merge($other) },
    'merge, no filter'   => sub { $f->merge({}) },
    'frozen add'         => sub { $frozen->add('x') },
    'frozen add_many'    => sub { $frozen->add_many(\@mixed) },
    'frozen freeze'      => sub { $frozen->freeze },
    'destroyed'          => sub { $dead->contains('x') },
    'destroyed, batch'   => sub { $dead->add_many(\@mixed) },
    'class name'         => sub { $CLASS->add('x') },
    'capacity'           => sub { $CLASS->new(undef, 0) },
    'capacity text'      => sub { $CLASS->new(undef, "ab$up") },
    'fp_rate'            => sub { $CLASS->new(undef, 100, 2) },
    'too large'          => sub { $CLASS->new(undef, 1e15) },
    'mode'               => sub { $CLASS->new(undef, 100, 0.1, 010000) },
    'geometry'           => sub { $CLASS->geometry(0, 0) },
    'from bytes, short'  => sub { $CLASS->new_from_bytes('short') },
    'from bytes, wide'   => sub { $CLASS->new_from_bytes($wide) },
    'from fd, -1'        => sub { $CLASS->new_from_fd(-1) },
    'path with NUL'      => sub { $CLASS->new("$dir/a\0b", 100) },
    'empty path'         => sub { $CLASS->new('', 100) },
    'wide path'          => sub { $CLASS->new("$dir/$wide", 100) },
);

my ($fds, $maps) = (fds(), maps());
for my $name (sort keys %call) {
    my $grown = grown($call{$name}, $name =~ /many|absent|stats/ ? $ROUNDS / 5
        : $ROUNDS);
    cmp_ok($grown, '<', $LIMIT, "$name: no memory");
}
for my $name (sort keys %croak) {
    my $code = $croak{$name};
    my $failed = 0;
    my $grown = grown(sub { eval { $code->(); 1 } or $failed++ }, $ROUNDS / 5);
    cmp_ok($failed, '>', $ROUNDS / 5, "$name: croaks");
    cmp_ok($grown, '<', $LIMIT, "$name: no memory is lost by the croak");
}
is(fds(), $fds, 'no descriptor is left open');
is(maps(), $maps, 'no mapping is left');

# Constructors that fail late: files, after the descriptor was opened.
{
    my $good = "$dir/good.cbf";
    { my $g = $CLASS->new($good, @PLAN) }
    my $bytes = bytes_of($good);
    my %file = (
        short => substr($bytes, 0, 100), text => "hello\n" x 5000,
        cut => substr($bytes, 0, -1), magic => "X" . substr($bytes, 1),
        k => substr($bytes, 0, 8) . "\xff" . substr($bytes, 9),
        sealed => substr($bytes, 0, 96) . "\1" . substr($bytes, 97),
    );
    for my $name (sort keys %file) {
        open my $fh, '>:raw', "$dir/$name" or die $!;
        print {$fh} $file{$name};
        close $fh or die $!;
    }
    symlink $good, "$dir/link" or die $!;
    mkdir "$dir/directory" or die $!;
    my ($fds, $maps) = (fds(), maps());
    for my $name (sort(keys %file), qw(link directory no/such/place)) {
        my $p = "$dir/$name";
        my $failed = 0;
        my $grown = grown(sub {
            eval { $CLASS->new($p, @PLAN); 1 } or $failed++;
            eval { $CLASS->new_readonly("$p"); 1 } or $failed++
                if $name ne 'sealed';
            open my $fh, '+<', $p or return;
            eval { $CLASS->new_from_fd(fileno $fh); 1 } or $failed++;
        }, 800);
        cmp_ok($failed, '>', 800, "$name: refused");
        cmp_ok($grown, '<', $LIMIT, "$name: no memory");
    }
    is(fds(), $fds, 'files refused: no descriptor');
    is(maps(), $maps, 'files refused: no mapping');
}

# References: arguments have as many as before.
{
    my @counted = map { \$_ } my ($a, $b, $c) = ('a', "b\xe9", 42);
    my $list = [$a, $b, $c];
    my $ref = sub { join ' ', map { Internals::SvREFCNT($$_) } @counted, \$list, \$f };
    my $elements = sub { join ' ', map { Internals::SvREFCNT($_) } @$list };
    my $before = $ref->() . $elements->();
    for my $method (qw(add contains count_of remove add_if_absent)) {
        $f->$method($_) for $a, $b, $c;
        eval { $dead->$method($a) };
    }
    for my $method (qw(add_many remove_many contains_many count_of_many present
        absent add_if_absent_many)) {
        my @x = $f->$method($list);
        my $x = $f->$method($list);
        $f->$method($list);
        eval { $dead->$method($list) };
        undef @x;
    }
    is($ref->() . $elements->(), $before, 'reference counts are as before');
}

done_testing;
