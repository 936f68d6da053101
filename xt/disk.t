# A full disk: a tmpfs and an ext4 file system in a loop device, each of a size
# at which new, the growth of a sparse file, sync, freeze and save run out of
# room.  Each gets its error, or the documented SIGBUS, and what was stored before
# is whole.  Needs root, and says so where it skips.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use Test::More;
use File::Temp ();
use IO::Compress::Gzip ();
use POSIX ();
use CBFCommand;
use CBFModel;
use CBFProc;
use CBFTest qw(guarded slurp spew table_is stats_are);
use XTTree;
use Data::CountingBloomFilter::Shared;

plan skip_all => 'mounting needs root' if $>;
plan skip_all => 'there is no unshare' if !have('unshare');
# Mounts of a namespace of its own go when the last process in it ends.
if (!$ENV{CBF_DISK_NAMESPACE}) {
    local $ENV{CBF_DISK_NAMESPACE} = 1;
    my ($said, $status) = capture('.', 'unshare', '-m', $^X, '-e', 1);
    plan skip_all => "no mount namespaces here: $said" if $status;
    exec 'unshare', '-m', '--propagation', 'private', $^X,
        map({ "-I$_" } @INC), $0, @ARGV;
}

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @SMALL = (2000, 0.01);          # 24,960 bytes
my @LARGE = (60_000, 0.01);        # 512 KiB, of which the pages used take room
my @kept  = map { "kept-$_" } 1 .. 500;
my $base  = File::Temp->newdir;
my ($errors, $signals, $states) = (0, 0, 0);
watchdog(180);

# Everything that is left of a disk, but for so many bytes.
sub fill_up {
    my ($dir, $but) = @_;
    open my $out, '>:raw', "$dir/ballast" or die "ballast: $!";
    my $n = 65_536;
    while ($n >= 512) {
        my $put = syswrite $out, "\xff" x $n;
        $n /= 2 if !$put || $put < $n;
    }
    close $out;
    my $size = -s "$dir/ballast";
    truncate "$dir/ballast", $size > $but ? $size - $but : 0 if $but;
    return;
}

sub whole {
    my ($dir, $model, $when) = @_;
    $states++;
    my $f = eval { $CLASS->new("$dir/old.cbf", @SMALL) };
    ok($f, "$when: the old file opens") or return diag($@);
    table_is($f, $model, "$when: its counters are as they were");
    stats_are($f, $model, "$when: and its statistics");
    my $frozen = $CLASS->new_readonly("$dir/sealed.cbf");
    is($frozen->verify, 1, "$when: the published file is whole");
    is($frozen->contains_many(\@kept), scalar @kept, "$when: with all items");
    return;
}

# A call that must fail with ENOSPC's text or the documented signal.
sub runs_out {
    my ($name, $code, $signal_too) = @_;
    my $r = guarded(20, $code);
    my $croaked = $r->{died} && $r->{out} =~ /\A\Q$CLASS\E->.*No space left/s;
    my $killed = $signal_too && $r->{sig} == POSIX::SIGBUS();
    $errors++  if $croaked;
    $signals++ if $killed;
    ok($croaked || $killed, "$name: " . ($signal_too
        ? 'an error, or SIGBUS as documented' : 'an error that says so'))
        or diag(explain $r);
    return;
}

# The command, with the new file or the temporary one on a full disk.
sub command_runs_out {
    my ($kind, $dir) = @_;
    my $elsewhere = "$base/elsewhere.cbf";
    unlink $elsewhere;
    $CLASS->new($elsewhere, @SMALL)->add_many(\@kept);
    my $before = slurp($elsewhere);
    my $long = "$base/long.gz";
    IO::Compress::Gzip::gzip(\("a line of some length\n" x 300_000), $long)
        or die;
    for my $command ('add', 'remove') {
        fails(cbf([$command, $elsewhere, $long], env => { TMPDIR => $dir }),
            qr/temporary file in \Q$dir\E: No space left/,
            "$kind, full: cbf $command, no room for what it keeps");
    }
    ok(slurp($elsewhere) eq $before, "$kind, full: it has changed nothing");
    my $to    = "$dir/sealed.cbf";
    my $image = spew("$base/exported", cbf('export', $elsewhere)->{out});
    for my $args (['build', $to, '-e', 'x'], ['build', $to, $long],
        ['merge', '-o', $to, $elsewhere], ['export', '-o', $to, $elsewhere],
        ['import', $to, $image], ['import', '-w', $to, $image])
    {
        fails(cbf(@$args), qr/No space left/, "$kind, full: cbf $args->[0]");
    }
    return;
}

sub try_disk {
    my ($kind, $dir) = @_;
    my $model = CBFModel->new(@SMALL);
    my $f = $CLASS->new("$dir/old.cbf", @SMALL);
    $_->add_many(\@kept) for $f, $model;
    $f->save("$dir/sealed.cbf");
    my $large = $CLASS->new("$dir/large.cbf", @LARGE);
    fill_up($dir, 0);

    # What is mapped and has its blocks goes on.
    for my $item (qw(one two)) { $_->add($item) for $f, $model }
    is($f->contains('one'), 1, "$kind, full: an old file takes more items");
    is(eval { $f->sync; 1 }, 1, "$kind, full: and is flushed") or diag($@);

    # Creation takes no room yet for the counters, but some for the header.
    runs_out("$kind, full: new", sub {
        $CLASS->new("$dir/new.cbf", @SMALL)->add('x');
        return 'went on';
    }, 1);
    unlink "$dir/new.cbf";

    runs_out("$kind, full: the growth of a sparse file", sub {
        $large->add_many([map { "grow-$_" } 1 .. 20_000]);
        $large->sync;
        return 'went on';
    }, 1);
    runs_out("$kind, full: save over a published file",
        sub { $f->save("$dir/sealed.cbf"); 'went on' });
    runs_out("$kind, full: save to a new name",
        sub { $f->save("$dir/other.cbf"); 'went on' });
    command_runs_out($kind, $dir);
    is_deeply([sort grep { !/lost\+found/ } _entries($dir)],
        [sort qw(ballast large.cbf old.cbf sealed.cbf)],
        "$kind, full: nothing half made is left");

    # Whoever died of it, with the lock or without; others go on, with whole
    # items.  In a tmpfs even looking at a hole takes room.
    my $r = guarded(10, sub {
        my $s = $large->stats;
        return $s->{items} == int $s->{items} ? 'whole' : 'part';
    });
    is($r->{out}, 'whole', "$kind, full: others go on with the large one")
        or diag(explain $r);
    $r = guarded(10, sub {
        return scalar grep { $large->contains("other-$_") } 1 .. 20_000;
    });
    ok($r->{ok} || ($kind eq 'tmpfs' && $r->{sig} == POSIX::SIGBUS()),
        "$kind, full: looking goes on" . ($kind eq 'tmpfs'
            ? ', or ends with SIGBUS as documented' : ''))
        or diag(explain $r);
    undef $f;
    whole($dir, $model, "$kind, full");

    # Freezing what has all its blocks needs no room.
    $f = $CLASS->new("$dir/old.cbf", @SMALL);
    ok(eval { $f->freeze; 1 }, "$kind, full: freeze") or diag($@);
    undef $f;
    is($CLASS->new_readonly("$dir/old.cbf")->verify, 1,
        "$kind, full: and the seal is right");

    # Room again: everything goes on.
    unlink "$dir/ballast" or die $!;
    undef $large;
    $large = $CLASS->new("$dir/large.cbf", @LARGE);
    ok(eval { $large->add_many([map { "grow-$_" } 1 .. 20_000]);
        $large->sync; 1 }, "$kind, room again: the large one grows")
        or diag($@);
    is($large->contains_many([map { "grow-$_" } 1 .. 20_000]), 20_000,
        "$kind, room again: and holds what was added");
    my ($set, $full, $sum)
        = tally_of(table_of("$dir/large.cbf"));
    is($large->stats->{counters_set}, $set, "$kind: tallies as recounted");
    ok(eval { $large->save("$dir/other.cbf"); 1 }, "$kind: save") or diag($@);
    is($CLASS->new_readonly("$dir/other.cbf")->verify, 1, "$kind: and whole");
    return;
}

# A large, nearly empty filter is frozen where there is no room to flush it.
sub try_freeze {
    my ($kind, $dir) = @_;
    unlink glob "$dir/*";
    my $f = $CLASS->new("$dir/large.cbf", @LARGE);
    $f->add('kept');
    fill_up($dir, 8192);
    my $r = guarded(20, sub {
        $f->add_many([map { "more-$_" } 1 .. 2000]);
        $f->freeze;
        return 'went on';
    });
    ok($r->{died} && $r->{out} =~ /No space left/ || $r->{ok}
        || $r->{sig} == POSIX::SIGBUS(),
        "$kind, nearly full: freeze is done, or says why not")
        or diag(explain $r);
    $errors++  if $r->{died};
    $signals++ if $r->{sig};
    unlink "$dir/ballast" or die $!;
    undef $f;
    my $sealed = ord substr slurp("$dir/large.cbf"), 96, 1;
    if ($sealed) {
        my $ro = $CLASS->new_readonly("$dir/large.cbf");
        is($ro->verify, 1, "$kind: sealed, and so whole");
        is($ro->contains('kept'), 1, "$kind: with the item");
    }
    else {
        my $rw = $CLASS->new("$dir/large.cbf", @LARGE);
        is($rw->contains('kept'), 1, "$kind: not sealed, the item is there");
        ok(eval { $rw->freeze; 1 }, "$kind: and it can be frozen now")
            or diag($@);
    }
    return;
}

sub _entries {
    my ($dir) = @_;
    opendir my $d, $dir or die "$dir: $!";
    return grep { !/\A\.\.?\z/ } readdir $d;
}

sub with_mount {
    my ($kind, @mount) = @_;
    my $dir = "$base/$kind";
    mkdir $dir or die "$dir: $!";
    my ($said, $status) = capture('.', 'mount', @mount, $dir);
    SKIP: {
        skip "$kind can't be mounted here: $said", 1 if $status;
        is(eval { try_disk($kind, $dir); try_freeze($kind, $dir); 1 }, 1,
            "$kind: no surprise") or diag($@);
        ($said, $status) = capture('.', 'umount', $dir);
        is($status, 0, "$kind: nothing keeps it busy") or diag($said);
    }
    return;
}

with_mount('tmpfs', qw(-t tmpfs -o size=2m none));
SKIP: {
    skip 'there is no mkfs.ext4', 1 if !have('mkfs.ext4');
    my $image = "$base/image";
    open my $out, '>:raw', $image or die $!;
    truncate $out, 4 << 20 or die $!;
    close $out;
    my ($said, $status)
        = capture('.', qw(mkfs.ext4 -q -F -O ^has_journal -m 0), $image);
    skip "no ext4: $said", 1 if $status;
    with_mount('ext4', qw(-o loop), $image);
}
note("figures: disks_errors=$errors documented_signals=$signals"
    . " old_data_checks=$states");
done_testing;
