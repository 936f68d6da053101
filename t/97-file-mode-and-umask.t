# The file mode asked for must be the mode the new file gets whatever the umask is
# (a group that cannot write cannot share), the default stays owner-only, and an existing
# filter keeps its own permissions.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my $n   = 0;
sub octal { sprintf '%04o', $_[0] }

for my $umask (0000, 0022, 0027, 0077, 0177) {
    umask $umask;
    my $label = 'umask ' . octal($umask);

    my $path = "$dir/f" . ++$n;
    $CLASS->new($path, 100, 0.01);
    is(mode_of($path), '0600', "$label: owner-only by default");

    for my $mode (0660, 0640, 0600, 0666) {
        $path = "$dir/f" . ++$n;
        my $f = $CLASS->new($path, 100, 0.01, $mode);
        is(mode_of($path), octal($mode), "$label: the requested mode " . octal($mode) . ' is the mode of the file');
        is(umask, $umask, "$label: the umask of the process is left alone");
        $f->add('x');
        undef $f;

        # reopening, with or without another mode, changes nothing
        $f = $CLASS->new($path, 100, 0.01, 0606);
        is($f->contains('x'), 1, "$label: reopened");
        is(mode_of($path), octal($mode), "$label: an existing filter keeps its permissions");
    }
}
umask 0022;

# an empty file of ours is adopted as new and gets the mode
my $path = "$dir/empty";
open my $fh, '>', $path or die $!;
close $fh;
chmod 0644, $path or die $!;
my $f = eval { $CLASS->new($path, 100, 0.01, 0660) };
ok($f, 'an empty file of ours is adopted') or diag $@;
is(mode_of($path), '0660', '... and gets the requested mode');
is($f && $f->add('x'), 1, '... and works');

# the mode means nothing without a new file
ok(eval { $CLASS->new(undef, 100, 0.01, 0660)->add('x') }, 'a mode is ignored for an anonymous mapping') or diag $@;

done_testing;
