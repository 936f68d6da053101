# Files of the wrong length, and files of zeros or ones: refused by every way to
# open a filter, and untouched.  An empty file, and zeros of exactly the right
# length, are a new filter for `new` alone.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my %AT    = %CBFProc::AT;
watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/victim.cbf";
my @item = map { "item-$_" } 1 .. 300;

{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->add_many(\@item);
}
my $live = bytes_of($path);
{
    my $f = $CLASS->new($path, 400, 0.01);
    $f->freeze;
}
my $sealed = bytes_of($path);
my $full   = length $live;

my %open = (
    new            => sub { $CLASS->new($path, 400, 0.01) },
    new_readonly   => sub { $CLASS->new_readonly($path) },
    new_from_fd    => sub { $CLASS->new_from_fd(fileno handle_on($path)) },
    new_from_bytes => sub { $CLASS->new_from_bytes(bytes_of($path)) },
);
my %sample = (
    new => $live, new_readonly => $sealed, new_from_fd => $live,
    new_from_bytes => $live,
);

sub refused {
    my ($how, $bytes, $label) = @_;
    put_bytes($path, $bytes);
    chmod 0640, $path;
    my $r = in_time(10, sub {
        my $f = $open{$how}->();
        return 'opened, ' . $f->contains_many(\@item);
    });
    my $right = !$r->{hung} && $r->{done} && !$r->{ok}
        && $r->{error} =~ /\A\Q$CLASS\E->$how: .*(?:invalid|incomplete|too small)/;
    ok($right, "$how: $label is refused") or diag(outcome($r));
    open my $fh, '<:raw', $path or die $!;
    my $now = do { local $/; <$fh> };
    $now = '' unless defined $now;
    ok($now eq $bytes, "$how: ... and untouched");
    is((stat $path)[2] & 07777, 0640, "$how: ... and so is its mode");
    return;
}

my @cut = (1, 3, 4, 7, 8, 12, 16, 40, 71, 72, 76, 88, 96, 97, 127, 128, 255,
    256, 257, 4095, 4096, 4097, 16_639, 16_640, 16_767, 16_768, 16_769,
    16_800, $full - 4096, $full - 32, $full - 8, $full - 1);
for my $how (sort keys %open) {
    refused($how, substr($sample{$how}, 0, $_), "cut to $_ of $full bytes")
        for @cut;
    refused($how, $sample{$how} . "\0" x $_, "grown by $_ zeros")
        for 1, 8, 4096, 1 << 20;
    refused($how, $sample{$how} . $sample{$how}, 'the file twice');
    refused($how, substr($sample{$how}, 1) . "\0", 'shifted by a byte');
    refused($how, "\xff" x $full, 'all ones');
    refused($how, "\0" x $_, "$_ zeros")
        for 1, 256, 16_768, $full - 1, $full + 1, 2 * $full;
}
for my $how (qw(new_readonly new_from_fd new_from_bytes)) {
    refused($how, '', 'an empty file');
    refused($how, "\0" x $full, 'zeros of the right length');
}

# The interrupted create: empty, or nothing but zeros of the right length.
for my $case (['empty', ''], ['all zero', "\0" x $full]) {
    my ($what, $bytes) = @$case;
    put_bytes($path, $bytes);
    chmod 0644, $path;
    my $f = eval { $CLASS->new($path, 400, 0.01) };
    ok($f, "new adopts a file that is $what") or diag($@);
    is($f && $f->add('x'), 1, '... as an empty filter');
    is(-s $path, $full, '... of the right size');
    is((stat $path)[2] & 07777, 0600, '... with the default mode');
}

# Holes count as zeros; reading gigabytes of them would be noticed.
{
    my $plan = $CLASS->geometry(100_000_000, 0.01);
    open my $fh, '>', $path or die $!;
    truncate $fh, $plan->{mmap_size} - 1 or die $!;
    my $r = in_time(5, sub { $CLASS->new($path, 100_000_000, 0.01); 'made' });
    ok(!$r->{ok} && !$r->{hung}, 'a large sparse file of the wrong length')
        or diag(outcome($r));
    is(-s $fh, $plan->{mmap_size} - 1, '... keeps its length');
}

# A cut memfd: from outside nobody can, for it is sealed.
{
    my $f  = $CLASS->new_memfd('sealed', 400, 0.01);
    my $fh = handle_on($f->memfd);
    ok(!truncate($fh, 100), 'a memfd filter cannot be cut');
    ok(!truncate($fh, 1 << 20), '... nor grown');
    is($f->add('x'), 1, '... and works');
}

done_testing;
