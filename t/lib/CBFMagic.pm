package CBFMagic;
# Arguments that run code when they are read: an overloaded object, a tied
# scalar, and a tied array that tells how often it was asked.  They know nothing
# of filters.
use strict;
use warnings;

sub item { return CBFMagic::Item->new(@_) }

{
    package CBFMagic::Item;
    use overload '""' => sub {
        my ($self) = @_;
        $self->{n}++;
        $self->{code}->() if $self->{code};
        return $self->{text};
    }, fallback => 1;

    sub new {
        my ($class, $text, $code) = @_;
        return bless { text => $text, code => $code, n => 0 }, $class;
    }

    package CBFMagic::Tied;

    sub TIESCALAR {
        my ($class, $text, $code) = @_;
        return bless { text => $text, code => $code }, $class;
    }

    sub FETCH {
        my ($self) = @_;
        $self->{code}->() if $self->{code};
        return $self->{text};
    }

    sub STORE { }

    package CBFMagic::Array;

    sub TIEARRAY {
        my ($class, %opt) = @_;
        return bless { %opt, sizes => 0, n => 0 }, $class;
    }

    sub FETCHSIZE {
        my ($self) = @_;
        $self->{sizes}++;
        return $self->{size};
    }

    sub FETCH {
        my ($self, $i) = @_;
        $self->{n}++;
        $self->{code}->($self, $i) if $self->{code};
        return "tied-$i";
    }

    sub STORE     { }
    sub CLEAR     { }
    sub EXTEND    { }
    sub STORESIZE { }
}

1;
