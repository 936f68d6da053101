package Data::CountingBloomFilter::Shared::Command::Spool;
# What was read once and will be read again.  A plain file is read through, and
# keeps its content itself; of everything else the content is kept here, in
# memory while it is little, and beyond that in a temporary file, which has no
# name and is gone when the process is.  Knows no items; how a source or a part is
# read is Input's.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(stop_if_signalled undisturbed write_all);

# By measurement on short lines: from there on a temporary file, and several
# processes that can read it, are worth their start.
my $MEMORY_BYTES = 4 * 1024 * 1024;

# Files that are kept open until they are read again, so that they are the same
# whatever becomes of their names.  A process may have 1024 open, or far less.
my $OPEN_FILES = 20;

sub new {
    my ($class) = @_;
    return bless { parts => [], text => '', bytes => 0, open => 0 }, $class;
}

# Reads a source to its end: {read}, {handle} and {shown} as of open_source, and
# {path}.  $told->($bytes) is told of every block.
sub take {
    my ($self, $source, $told) = @_;
    my $part = _plain_part($source);
    my $kept = !$part;
    $part //= { kept => 1, start => $self->{bytes}, shown => $source->{shown} };
    my $passing = '';
    my $into    = $kept ? \$self->{text} : \$passing;
    my $bytes   = 0;
    while (my $n = $source->{read}->($into)) {
        stop_if_signalled();
        $bytes += $n;
        $told->($n);
        $passing = '';
        $self->_spill if length $self->{text} > $MEMORY_BYTES;
    }
    $part->{bytes} = $bytes;
    $self->{bytes} += $bytes if $kept;
    delete $part->{handle} if !$kept && defined $part->{path}
        && ++$self->{open} > $OPEN_FILES;
    push @{ $self->{parts} }, $part;
    return;
}

# The part that a plain file is, from where it stands; undef for what is none.
# What claims to be empty may be a file that the kernel makes up on reading.
sub _plain_part {
    my ($source) = @_;
    my $handle = $source->{handle} // return undef;
    my @st = stat $handle;
    return undef if !@st || !-f _ || !$st[7];
    return {
        handle => $handle, start => 0 + sysseek($handle, 0, 1),
        shown  => $source->{shown}, path => $source->{path},
        id     => "$st[0]/$st[1]",
    };
}

# No more will be taken.  The parts, in their order: {start} and {bytes} of
# {handle} or, where that is missing, of the string behind {text}.
sub parts {
    my ($self) = @_;
    $self->_spill if $self->{file};
    for my $part (@{ $self->{parts} }) {
        if (!$part->{kept})   { _is_there($part) }
        elsif ($self->{file}) { $part->{handle} = $self->{file} }
        else                  { $part->{text} = \$self->{text} }
    }
    return @{ $self->{parts} };
}

# Dies if a plain file is not there any more, as far as it was read.
sub _is_there {
    my ($part) = @_;
    return if !$part->{bytes};
    my @st = stat($part->{handle} // $part->{path});
    die "$part->{shown}: changed while it was read\n"
        if !@st || "$st[0]/$st[1]" ne $part->{id}
        || $st[7] < $part->{start} + $part->{bytes};
    return;
}

# The handle of a part that is in a file.
sub handle_of {
    my ($part) = @_;
    return $part->{handle} if $part->{handle};
    open my $handle, '<:raw', $part->{path} or die "$part->{shown}: $!\n";
    _is_there({ %$part, handle => $handle });
    return $handle;
}

# What was kept in memory goes into the file.
sub _spill {
    my ($self) = @_;
    $self->{file} //= _temporary();
    write_all($self->{file}, _where(), \$self->{text});
    $self->{text} = '';
    return;
}

# An empty file without a name.
sub _temporary {
    require File::Spec;
    require File::Temp;
    return undisturbed(sub {
        my ($file, $path) = eval {
            File::Temp::tempfile('cbf-XXXXXXXXXX', DIR => File::Spec->tmpdir);
        } or die _where() . ": $!\n";
        unlink $path;
        binmode $file;
        return $file;
    });
}

sub _where { return 'temporary file in ' . File::Spec->tmpdir }

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Spool - input that is read twice

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 METHODS

=head2 new

Nothing has been read yet.

=head2 take($source, $told)

Reads a source to its end, and keeps what could not be read again.

=head2 parts

Where all of that is now.

=head1 FUNCTIONS

=head2 handle_of($part)

The open file that a part is in.

=cut
