package Data::CountingBloomFilter::Shared::Command::Progress;
# Says how far long work has come, on a terminal only: with Term::ProgressBar
# where that is installed and the end is known, else with a line a second.

use 5.022;
use strict;
use warnings;
use Time::HiRes ();

my $SECONDS_BETWEEN = 1;

# With total => bytes, undef for not known, it speaks; without, it never does.
sub new {
    my ($class, $name, %option) = @_;
    my $self = bless { name => $name, done => 0 }, $class;
    return $self if !exists $option{total} || !-t STDERR;
    my $total = $option{total};
    my $now   = Time::HiRes::time();
    %$self = (%$self, speaks => 1, total => $total, start => $now,
        next => $now + $SECONDS_BETWEEN);
    $self->{bar} = eval {
        require Term::ProgressBar;
        Term::ProgressBar->new({
            name => $name, count => $total, fh => \*STDERR, ETA => 'linear',
            remove => 1,
        });
    } if $total;
    return $self;
}

# So many more bytes are done.
sub more {
    my ($self, $bytes) = @_;
    return if !$self->{speaks};
    return $self->upto($self->{done} + $bytes);
}

# So many bytes are done in all.
sub upto {
    my ($self, $bytes) = @_;
    $self->{done} = $bytes;
    return if !$self->{speaks};
    my $now = Time::HiRes::time();
    return if $now < $self->{next};
    $self->{next} = $now + $SECONDS_BETWEEN;
    return $self->{bar}->update($bytes) if $self->{bar};
    my $share = $self->{total}
        ? sprintf ' (%d %%)', 100 * $bytes / $self->{total} : '';
    printf STDERR "%s: %.1f MB%s, %d s\n", $self->{name}, $bytes / 1e6,
        $share, $now - $self->{start};
    return;
}

sub done { return $_[0]{done} }

sub end {
    my ($self) = @_;
    $self->{bar}->update($self->{total}) if $self->{bar};
    return;
}

# A last line about what was done; on a terminal, like the rest.
sub say {
    my ($self, $text) = @_;
    print STDERR "$self->{name}: $text\n" if $self->{speaks};
    return;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Progress - how far work has come

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 METHODS

=head2 new($name, total => $bytes)

Speaks on a terminal; without C<total>, never.

=head2 more($bytes), upto($bytes), done

So many bytes are done: more than before, in all; how many were told so far.

=head2 end

All is done.

=head2 say($text)

A last line.

=cut
