package Data::CountingBloomFilter::Shared::Command::Target;
# Filters as files: opening them for reading and writing, and putting a new one
# in the place of an old one, whole or not at all.

use 5.022;
use strict;
use warnings;
use Exporter 'import';
use Fcntl ();
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(attempt stop_if_signalled undisturbed write_all);

our @EXPORT_OK = qw(open_reading open_whole open_writing make_file reserve
    publish write_bytes publish_bytes tidy_up mode_of);

my $CLASS = 'Data::CountingBloomFilter::Shared';

# Geometry for opening what is there already: its own counts.
my @NO_GEOMETRY = (1, 0.5);

my $SHOWN_NAME = 200;    # of a name; the rest of 255 bytes is for numbers

my %unfinished;    # path => pid of who will remove it

# A filter to look at: frozen, or open for writing since there is no other way.
sub open_reading {
    my ($path) = @_;
    my ($filter, $error) = attempt(sub { $CLASS->new_readonly($path) });
    return $filter if $filter;
    die $error if $error !~ /\bis not frozen\b/;
    ($filter, $error) = attempt(sub { return open_writing($path) });
    return $filter if $filter;
    die $error if sysopen(my $file, $path, Fcntl::O_RDWR())
        || !($!{EACCES} || $!{EPERM} || $!{EROFS});
    die "$path: $!; a filter that is not frozen can't be read without write"
        . " permission: 'cbf freeze' it, or read a copy that 'cbf export' makes\n";
}

# The same for what goes into a file elsewhere, with a new checksum there: what a
# frozen filter's own one contradicts must not pass for whole.
sub open_whole {
    my ($path) = @_;
    my $filter = open_reading($path);
    die "$path: damaged, its checksum does not match\n"
        if $filter->frozen && !($filter->verify // 1);
    return $filter;
}

# A filter that is there and is not frozen; none is made.
sub open_writing {
    my ($path) = @_;
    lstat $path or die "$path: $!\n";
    die "$path: no filter, the file is empty\n" if -f _ && -z _;
    return $CLASS->new($path, @NO_GEOMETRY);
}

# An octal number of an option, or undef.
sub mode_of {
    my ($text) = @_;
    return undef if !defined $text;
    die "--mode must be an octal number from 0 to 7777, not $text\n"
        if $text !~ /\A[0-7]{1,5}\z/ || oct $text > 07777;
    return oct $text;
}

# A new file for a mutable filter; what is there already is left alone.
sub make_file {
    my ($path, $capacity, $rate, $mode) = @_;
    $CLASS->geometry($capacity, $rate);
    _create($path) or die "$path: $!\n";
    my $filter = $CLASS->new($path, $capacity, $rate, $mode);
    delete $unfinished{$path};
    return $filter;
}

# Makes an empty file that was not there, and notes that it is unfinished; false
# if that can't be, as $! says.
sub _create {
    my ($path) = @_;
    my $flags = Fcntl::O_WRONLY() | Fcntl::O_CREAT() | Fcntl::O_EXCL()
        | Fcntl::O_NOFOLLOW();
    my $made = undisturbed(sub {
        sysopen my $file, $path, $flags, 0600 or return 0;
        return $unfinished{$path} = $$;
    });
    stop_if_signalled();
    return $made;
}

# The name of a file beside the target that will take its place.  It is made at
# once: what forbids it is better known before long work than after.
sub reserve {
    my ($target) = @_;
    die "the path of the new file is empty\n" if !length $target;
    if (lstat $target) {
        die "$target: Is a directory\n" if -d _;
        die "$target: neither a regular file nor a link\n"
            if !-f _ && !-l _;
    }
    my ($directory, $name) = _parts($target);
    my $stem = $directory . '.' . substr($name, 0, $SHOWN_NAME) . ".$$";
    for my $try (1 .. 10) {
        my $beside = "$stem.$try.cbf";
        return $beside if _create($beside);
        last if !$!{EEXIST};
    }
    die "$target: $!\n";
}

# The directory of a path, as a path that can be joined with a name, and a name.
sub _parts {
    my ($path) = @_;
    my ($directory, $name) = $path =~ m{\A(.*/)?([^/]*)\z}s;
    return ($directory // './', $name);
}

# Puts a frozen snapshot in the target's place by way of the reserved name: it is
# saved and flushed, read again and compared with its checksum, and renamed.
sub publish {
    my ($filter, $beside, $target, $mode) = @_;
    $mode //= 0600;
    $filter->save($beside, $mode | 0400);
    die "$target: what was written can't be read back as it was\n"
        if !$CLASS->new_readonly($beside)->verify;
    _replace($beside, $target, $mode);
    return;
}

# Bytes into the reserved file, flushed.
sub write_bytes {
    my ($bytes, $beside) = @_;
    require IO::Handle;
    open my $out, '>:raw', $beside or die "$beside: $!\n";
    write_all($out, $beside, $bytes);
    $out->sync && close $out or die "$beside: $!\n";
    return;
}

# publish for bytes that are an image.
sub publish_bytes {
    my ($bytes, $beside, $target, $mode) = @_;
    write_bytes($bytes, $beside);
    _replace($beside, $target, $mode // 0600);
    return;
}

sub _replace {
    my ($beside, $target, $mode) = @_;
    chmod $mode, $beside or die "$beside: $!\n";
    stop_if_signalled();
    undisturbed(sub {
        rename $beside, $target or die "$target: $!\n";
        delete $unfinished{$beside};
    });
    # The name must outlive a crash, too; where a directory can't be opened or
    # flushed, the file system decides when.
    require IO::Handle;
    if (open my $directory, '<', (_parts($target))[0]) {
        $directory->sync;
    }
    return;
}

# Removes what was not finished; in the process that began it only.
sub tidy_up {
    for my $path (keys %unfinished) {
        unlink $path if $unfinished{$path} == $$;
        delete $unfinished{$path};
    }
    return;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Target - filters as files

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 FUNCTIONS

=head2 open_reading($path), open_writing($path)

The filter that is there; none is made.

=head2 open_whole($path)

The same as open_reading, but refuses a frozen one that is damaged.

=head2 make_file($path, $capacity, $rate, $mode)

A new filter where no file was.

=head2 reserve($path)

An empty file beside a path, which will take its place.

=head2 publish($filter, $beside, $path, $mode)

Writes a filter, checks it and renames it into place.

=head2 write_bytes, publish_bytes

The same for an image.

=head2 mode_of($text)

An octal number.

=head2 tidy_up

Removes what was begun and not finished.

=cut
