package Data::CountingBloomFilter::Shared::Command::Process;
# The process of the command: how it fails, the signals that ask it to end, what
# it prints past all layers, and what it has to tidy up.  Knows no command and
# no filter.

use 5.022;
use strict;
use warnings;
use Errno ();
use Exporter 'import';

our @EXPORT_OK = qw(attempt one_line watch_signals stop_if_signalled
    end_by_signal leave disturbed undisturbed write_out write_all
    is_broken_pipe);

my $CLASS = 'Data::CountingBloomFilter::Shared';

# Those that end a program politely, and may arrive at any time.
my @ENDING = qw(HUP INT TERM);

my $caught;      # name of the first that came
our $held = 1;     # true while they must not interrupt

# Runs code, and returns its value and '' or undef and what it died of.  What
# ends the whole program goes through.
sub attempt {
    my ($code) = @_;
    local $@;
    my $value = eval { $code->() };
    my $error = $@;
    stop_if_signalled();
    return ($value, '') if $error eq '';
    return (undef, $error);
}

# An error of ours, of the module or of perl, as one line for a user: without
# the names of methods and places in programs, and without control characters.
sub one_line {
    my ($text) = @_;
    $text = "$text";
    $text =~ s/\A\Q$CLASS\E(?:::\w+)*->\w+: //;
    $text =~ s/; open it with new(?:_readonly)?\b//;
    $text =~ s/ at (?:(?! at ).)+ line [0-9]+(?:, <[^>]*> \w+ [0-9]+)?\.?\s*\z//s;
    $text =~ s/\s+\z//;
    $text =~ s/([\x00-\x1f\x7f])/sprintf '\\x%02x', ord $1/ge;
    return $text;
}

# From now on these signals unwind the program, so that it can tidy up.  One
# that is ignored stays so, as nohup wants it.  A file that would grow beyond a
# limit is an error of the call that writes.
sub watch_signals {
    my $owner = $$;
    $SIG{XFSZ} = 'IGNORE';
    for my $name (@ENDING) {
        next if defined $SIG{$name} && $SIG{$name} eq 'IGNORE';
        $SIG{$name} = sub {
            leave() if $$ != $owner && !$held;
            $caught //= $_[0];
            die "interrupted\n" if !$held;
        };
    }
    return;
}

# Ends a child that has nothing to tidy up and nothing to flush.  POSIX takes as
# long to load as the rest of the program, and most runs have no children.
sub leave {
    require POSIX;
    POSIX::_exit(0);
}

# What dies in a handler may be caught by a library on its way; this finds out.
sub stop_if_signalled {
    die "interrupted\n" if defined $caught && !$held;
    return;
}

# Runs code that they may end by dying in it, and returns its value.  Outside of
# it they are only noted: nothing would catch what they died of.
sub disturbed {
    my ($code) = @_;
    local $held = 0;
    stop_if_signalled();
    return $code->();
}

# Runs code that they must not take apart, and returns its value; the children
# that it makes pay no attention to them either.
sub undisturbed {
    my ($code) = @_;
    local $held = 1;
    return $code->();
}

# Ends the program as the signal that came would have, for those who look at how
# it ended; returns if none came.
sub end_by_signal {
    my $name = @_ ? $_[0] : $caught;
    return if !defined $name;
    $SIG{$name} = 'DEFAULT';
    kill $name, $$;
    select undef, undef, undef, 1;    # not reached, unless it is blocked
    return;
}

# All of a text, past any layer of the handle.
sub write_all {
    my ($handle, $shown, $text) = @_;
    my $done = 0;
    while ($done < length $$text) {
        my $n = syswrite $handle, $$text, length($$text) - $done, $done;
        if    (defined $n) { $done += $n }
        elsif ($!{EINTR})  { stop_if_signalled() }
        else               { die "$shown: $!\n" }
    }
    return;
}

sub write_out { return write_all(\*STDOUT, 'standard output', \$_[0]) }

# Whether this is what write_out died of when nobody reads any more.
sub is_broken_pipe {
    my ($error) = @_;
    local $! = Errno::EPIPE();
    return $error eq "standard output: $!\n";
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Process - signals, errors and output

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 FUNCTIONS

=head2 attempt($code)

Runs code: its value and an empty string, or undef and what it died of.

=head2 one_line($error)

An error as one line for people.

=head2 watch_signals, disturbed($code), stop_if_signalled, undisturbed($code),
end_by_signal

Signals that end the program: from now on they are noted; runs code that they
unwind; dies if one came; runs code that they must not take apart; ends the
process by the one that came.

=head2 leave

Ends a child process, which has nothing to tidy up.

=head2 write_all($handle, $name, \$text), write_out($text)

Writes all of a text, on a handle or on standard output, or dies.

=head2 is_broken_pipe($error)

Whether write_out died because nobody reads any more.

=cut
