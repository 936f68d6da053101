package Data::CountingBloomFilter::Shared;

use 5.022;
use strict;
use warnings;

our $VERSION = '0.03';

require XSLoader;
XSLoader::load(__PACKAGE__, $VERSION);

# Storable: what is stored is an image, so a restored filter, and a dclone, is
# an independent copy in private memory.  Threads need no hook: the object's
# magic is duplicated with it.
sub STORABLE_freeze {
    my ($self) = @_;
    return $self->to_bytes;
}

sub STORABLE_attach {
    my ($class, undef, $image) = @_;
    return $class->new_from_bytes($image);
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared - counting Bloom filter in shared memory

=cut
