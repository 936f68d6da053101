package Data::CountingBloomFilter::Shared::Command::Items;
# The commands that read items: add, remove, check, count-of, build.  They know
# what to do with a batch; how batches come about is Input's.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Input;
use Data::CountingBloomFilter::Shared::Command::Process qw(write_out);
use Data::CountingBloomFilter::Shared::Command::Target
    qw(open_reading open_writing reserve publish mode_of);

my $CLASS = 'Data::CountingBloomFilter::Shared';

sub _input {
    my ($name, $option, @files) = @_;
    return Data::CountingBloomFilter::Shared::Command::Input->new(
        { %$option, name => $name }, @files);
}

# The items of a batch that there are: a line may have no such column.
sub _there {
    my ($input, $items) = @_;
    return $items if !$input->has_field;
    return [grep { defined } @$items];
}

# Items as they are printed.
sub _text {
    my ($input, $items) = @_;
    my $separator = $input->separator;
    return @$items ? join($separator, @$items) . $separator : '';
}

# ---- add, remove -------------------------------------------------------

sub add {
    my ($option, $file, @inputs) = @_;
    for my $other (qw(new stream)) {
        die "--atomic and --$other exclude each other\n"
            if $option->{atomic} && $option->{$other};
    }
    my $input  = _input('add', $option, @inputs);
    my $target = open_writing($file);
    my $filter = $option->{atomic} ? _scratch($target) : $target;
    my ($n, $new) = (0, 0);
    # Several processes would leave it open which of two equal lines is the
    # first, and so what is printed.
    $input->alone if $option->{new};
    # What --new prints is work for the next program: an item that was added, and
    # is never printed because something failed, would be lost to it.
    my $run = $option->{stream} || $option->{new} || $option->{atomic}
        ? 'run' : 'run_whole';
    ($n, $new) = $input->$run(
        ready  => sub { _wait_for_lock($target) },
        prints => $option->{new},
        report => sub { return ($n, $new) },
        batch  => sub {
            my $items = _there($input, $_[0]);
            $n += @$items;
            if (!$option->{new}) {
                $new += $filter->add_many($items);
                return '';
            }
            my @added = $filter->add_if_absent_many($items);
            $new += @added;
            return _text($input, \@added);
        },
    );
    $target->merge($filter) if $option->{atomic};
    $input->say("$n items" . ($option->{atomic} ? '' : ", $new of them new"));
    return 0;
}

# While nobody is kept from ending the program: a look at the filter waits for
# whoever is changing it.
sub _wait_for_lock { $_[0]->count; return }

# An empty filter that can be merged into another one.
sub _scratch {
    my ($target) = @_;
    my $scratch = $CLASS->new(undef, $target->capacity, $target->fp_rate);
    die "--atomic can't be had: the file's capacity and rate do not go with"
        . " its size\n"
        if $scratch->counters != $target->counters
        || $scratch->hashes != $target->hashes;
    return $scratch;
}

sub remove {
    my ($option, $file, @inputs) = @_;
    my $input  = _input('remove', $option, @inputs);
    my $filter = open_writing($file);
    my ($n, $removed) = (0, 0);
    # What of two removals finds an item must not be left to chance.
    $input->alone;
    my $run = $option->{stream} ? 'run' : 'run_whole';
    ($n, $removed) = $input->$run(
        ready  => sub { _wait_for_lock($filter) },
        report => sub { return ($n, $removed) },
        batch  => sub {
            my $items = _there($input, $_[0]);
            $n += @$items;
            $removed += $filter->remove_many($items);
            return '';
        },
    );
    $input->say("$n items, $removed of them removed");
    return $removed == $n ? 0 : 1;
}

# ---- check, count-of ---------------------------------------------------

sub check {
    my ($option, $file, @inputs) = @_;
    my $input  = _input('check', $option, @inputs);
    my $filter = open_reading($file);
    my $found  = 0;
    my $prints = !$option->{quiet} && !$option->{count};
    my $choose = $option->{'invert-match'} ? '_absent_text' : '_present_text';
    my $separator = $input->separator;
    my $select = $input->has_field ? \&_lines_by_field
        : $option->{'invert-match'} ? sub { return [$_[1]->absent($_[2])] }
        :                             sub { return [$_[1]->present($_[2])] };
    $input->alone if $option->{quiet};
    ($found) = $input->run(
        prints => $prints,
        report => sub { return $found },
        text   => sub {
            my ($text) = @_;
            my ($n, $out) = $prints ? $filter->$choose($$text, $separator)
                : (scalar $filter->$choose($$text, $separator), '');
            $found += $n;
            $input->stop if $found && $option->{quiet};
            return $out;
        },
        batch  => sub {
            my ($items, $lines) = @_;
            my $selected = $select->($option, $filter, $items, $lines);
            $found += @$selected;
            $input->stop if $found && $option->{quiet};
            return $prints ? _text($input, $selected) : '';
        },
    );
    write_out("$found\n") if $option->{count} && !$option->{quiet};
    return $found ? 0 : 1;
}

# A line without the column is not in the filter, whatever is.
sub _lines_by_field {
    my ($option, $filter, $items, $lines) = @_;
    my @is_in = $filter->contains_many([grep { defined } @$items]);
    my $wanted = $option->{'invert-match'} ? 0 : 1;
    my $next   = 0;
    return [map { $lines->[$_] } grep {
        (defined $items->[$_] ? $is_in[$next++] : 0) == $wanted
    } 0 .. $#$lines];
}

sub count_of {
    my ($option, $file, @inputs) = @_;
    my $input  = _input('count-of', $option, @inputs);
    my $filter = open_reading($file);
    $input->run(
        prints => 1,
        report => sub { return 0 },
        batch  => sub {
            my ($items, $lines) = @_;
            my @count = $filter->count_of_many(_there($input, $items));
            my $next  = 0;
            return _text($input, [map {
                (defined $items->[$_] ? $count[$next++] : 0) . "\t$lines->[$_]"
            } 0 .. $#$lines]);
        },
    );
    return 0;
}

# ---- build -------------------------------------------------------------

sub build {
    my ($option, $target, @inputs) = @_;
    my $mode  = mode_of($option->{mode});
    my $input = _input('build', $option, @inputs);
    my $capacity = $option->{capacity};
    if (!defined $capacity) {
        $capacity = $input->count_ahead
            // die "--capacity is needed, for the input can't be read twice\n";
        $capacity ||= 1;
    }
    my $filter = $CLASS->new(undef, $capacity, $option->{rate});
    my $beside = reserve($target);
    my $separator = $input->separator;
    my $n = 0;
    ($n) = $input->run(
        report => sub { return $n },
        large  => 1,
        text   => sub {
            $n += $filter->_add_text(${ $_[0] }, $separator);
            return '';
        },
        batch  => sub {
            my $items = _there($input, $_[0]);
            $n += @$items;
            $filter->add_many($items);
            return '';
        },
    );
    $filter->freeze;
    publish($filter, $beside, $target, $mode);
    my $count = $filter->count;
    warn_full($filter, $target) if !$option->{quiet};
    $input->say("$n items, about $count different");
    return 0;
}

# More different items than it was made for: it works, but errs more often.
sub warn_full {
    my ($filter, $target) = @_;
    my $rate = $filter->estimated_fp_rate;
    return if $filter->count <= $filter->capacity * 1.1
        || $rate <= $filter->fp_rate;
    printf STDERR "cbf: %s holds about %d different items, more than its"
        . " capacity of %d: its error rate is %.2g\n", $target,
        $filter->count, $filter->capacity, $rate;
    return;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Items - commands that read items

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 FUNCTIONS

=head2 add, remove, check, count_of, build

The commands: each takes the options and the arguments, and returns the exit
status.

=head2 warn_full($filter, $path)

Says so if a filter holds more than fits well.

=cut
