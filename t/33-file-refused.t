# What stands at the path and is no regular file is refused, at once, by every
# constructor that takes a path; and what permissions forbid is a clear error.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use IO::Socket::UNIX ();
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
chmod 0755, "$dir" or die $!;
my $good = "$dir/good.cbf";
$CLASS->new($good, 100)->add('x');
my $before = slurp($good);
my $sealed = "$dir/sealed.cbf";
{ my $f = $CLASS->new($sealed, 100); $f->add('x'); $f->freeze }

# Each call in a process of its own, which may take two seconds and not more.
sub refused_at_once {
    my ($path, $what, $reason) = @_;
    my $shape = $reason || qr/\Q$path\E/;
    for my $case ([new => $path, 100], [new_readonly => $path]) {
        my ($method, @args) = @$case;
        my $r = guarded(2, sub { $CLASS->$method(@args); 'opened' });
        like($r->{died} ? $r->{out} : outcome($r),
            qr/\A\Q$CLASS\E->$method: .*$shape/s, "$method: $what");
    }
}

# ---- symbolic links ----------------------------------------------------

symlink $good, "$dir/link" or die $!;
symlink "$dir/nothing", "$dir/dangling" or die $!;
symlink "$dir/loop", "$dir/loop" or die $!;
for my $name (qw(link dangling loop)) {
    my $r = guarded(2, sub { $CLASS->new("$dir/$name", 100); 'opened' });
    like($r->{died} ? $r->{out} : outcome($r),
        qr/\A\Q$CLASS\E->new: .*\Q$dir\E\/$name/s, "new: a symbolic link, $name");
    ok(-l "$dir/$name", '... is left alone');
}
ok(!-e "$dir/nothing", 'nothing was made through a link');
is(slurp($good), $before, 'what a link points to is left alone');
mkdir "$dir/real" or die $!;
symlink "$dir/real", "$dir/folder" or die $!;
is(error_of(sub { $CLASS->new("$dir/folder/x", 100) }), undef,
    'a link on the way to the file is fine');
ok(-f "$dir/real/x", '... and followed');

# ---- no regular file ---------------------------------------------------

POSIX::mkfifo("$dir/fifo", 0600) or die $!;
refused_at_once("$dir/fifo", 'a FIFO nobody writes');
{
    # With both ends open the FIFO would not block; it is refused all the same.
    open my $both, '+<', "$dir/fifo" or die $!;
    syswrite $both, substr $before, 0, 1000;
    refused_at_once("$dir/fifo", 'a FIFO with bytes in it');
}
refused_at_once("$dir", 'a directory');
refused_at_once("$dir/", 'a directory, with a slash');
refused_at_once('/dev/null', 'a device');
refused_at_once('/dev/zero', 'an endless device');
my $socket = IO::Socket::UNIX->new(Local => "$dir/socket", Listen => 1)
    or die "socket: $!";
refused_at_once("$dir/socket", 'a socket');
ok(-p "$dir/fifo" && -S "$dir/socket" && -d "$dir", 'all of them are still there');
refused_at_once("$dir/none/x", 'a folder that is not there');

# What new would make, new_readonly wants to be there.
croaks('new_readonly', qr/\Q$dir\E\/absent/,
    sub { $CLASS->new_readonly("$dir/absent") }, 'new_readonly: no such file');
ok(!-e "$dir/absent", '... and makes none');
croaks('new_readonly', qr/not frozen/, sub { $CLASS->new_readonly($good) },
    'new_readonly: a file that is not frozen');
my $invalid = qr/invalid counting Bloom filter file|too small/;
for my $case (['empty', ''], ['one byte', 'x'], ['text', 'text ' x 10_000],
    ['zeros', "\0" x length $before], ['cut', substr slurp($sealed), 0, -1]) {
    my ($what, $data) = @$case;
    croaks('new_readonly', $invalid,
        sub { $CLASS->new_readonly(spew("$dir/bad", $data)) },
        "new_readonly: $what");
}

# ---- permissions -------------------------------------------------------

# As somebody without rights: root's tests give up root for these.
chmod 0600, $good or die $!;
chmod 0444, $sealed or die $!;
mkdir "$dir/locked", 0555 or die $!;
chmod 0555, "$dir/locked" or die $!;
{
    my $unreadable = "$dir/unreadable.cbf";
    spew($unreadable, slurp($sealed));
    chmod 0000, $unreadable or die $!;
    my $r = as_nobody(sub { $CLASS->new_readonly($unreadable) });
    like($r->{out}, qr/\A\Q$CLASS\E->new_readonly: .*\Q$unreadable\E/,
        'a file without the right to read it') or diag outcome($r);
    $r = as_nobody(sub { $CLASS->new("$dir/locked/x", 100) });
    like($r->{out}, qr/\A\Q$CLASS\E->new: .*\Q$dir\E\/locked\/x/,
        'a folder without the right to write it') or diag outcome($r);

    my $only_read = "$dir/only-read.cbf";
    spew($only_read, $before);
    chmod 0444, $only_read or die $!;
    $r = as_nobody(sub { $CLASS->new($only_read, 100) });
    like($r->{out}, qr/\A\Q$CLASS\E->new: .*\Q$only_read\E/,
        'a file without the right to write it') or diag outcome($r);
    $r = as_nobody(sub {
        my $ro = $CLASS->new_readonly($sealed);
        join ' ', $ro->contains('x'), $ro->count, $ro->verify,
            scalar @{ $ro->histogram };
    });
    is($r->{out}, '1 1 1 16', 'a frozen file needs no right to write')
        or diag outcome($r);
    $r = as_nobody(sub { $CLASS->new($sealed, 100) });
    like($r->{out}, qr/\A\Q$CLASS\E->new: /, '... and new refuses it');
}

# The message says what the system said.
{
    local $! = POSIX::ENOENT();
    my $text = "$!";
    like(error_of(sub { $CLASS->new("$dir/none/x", 100) }), qr/\Q$text\E/,
        'the system\'s reason is in the message');
}

is(slurp($good), $before, 'the good file is as it was');

done_testing;
