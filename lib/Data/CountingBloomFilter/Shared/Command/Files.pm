package Data::CountingBloomFilter::Shared::Command::Files;
# The commands that make, change and move whole filters: create, merge, freeze,
# verify, export, import.  Knows no items.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Input ();
use Data::CountingBloomFilter::Shared::Command::Process
    qw(attempt one_line stop_if_signalled write_out);
use Data::CountingBloomFilter::Shared::Command::Target
    qw(open_whole open_writing make_file reserve publish write_bytes
    publish_bytes mode_of);

my $CLASS = 'Data::CountingBloomFilter::Shared';

sub create {
    my ($option, $file) = @_;
    my $mode = mode_of($option->{mode});
    die "--capacity is needed\n" if !defined $option->{capacity};
    make_file($file, $option->{capacity}, $option->{rate}, $mode);
    return 0;
}

# ---- merge -------------------------------------------------------------

# Into the first file, or with --output all of them into a new frozen one.
sub merge {
    my ($option, @files) = @_;
    my $mode = mode_of($option->{mode});
    my $output = $option->{output};
    die "--mode needs --output\n" if defined $mode && !defined $output;
    die "merge needs a file to merge into, and others\n"
        if @files < 2 && !defined $output;
    my $first = shift @files;
    if (!defined $output) {
        my $target = open_writing($first);
        my @sources = map { _like($target, $first, $_) } @files;
        # One merge, so that it is all or nothing also when a signal comes.
        $target->merge(@sources > 1 ? _sum(@sources) : $sources[0]);
        return 0;
    }
    my $beside = reserve($output);
    my $filter = open_whole($first);
    my $sum = _sum($filter, map { _like($filter, $first, $_) } @files);
    publish($sum, $beside, $output, $mode);
    return 0;
}

# A new filter in memory that holds what these hold.
sub _sum {
    my ($first, @others) = @_;
    my $sum = $CLASS->new_from_bytes($first->to_bytes);
    $sum->merge($_) for @others;
    return $sum;
}

# The filter in a file, if it can be merged with another one.
sub _like {
    my ($filter, $name, $file) = @_;
    my $other = open_whole($file);
    die sprintf "geometry mismatch: %s has %d counters and %d hashes, %s has"
        . " %d counters and %d hashes\n", $name, $filter->counters,
        $filter->hashes, $file, $other->counters, $other->hashes
        if $filter->counters != $other->counters
        || $filter->hashes != $other->hashes;
    return $other;
}

# ---- freeze, verify ----------------------------------------------------

sub freeze {
    my ($option, $file) = @_;
    my ($frozen) = attempt(sub { $CLASS->new_readonly($file) });
    die "$file is frozen already\n" if $frozen;
    open_writing($file)->freeze;
    return 0;
}

# Each file on a line, like sha256sum -c; as far as it goes for all of them.
sub verify {
    my ($option, @files) = @_;
    my $status = 0;
    for my $file (@files) {
        my ($whole, $error) = attempt(sub {
            return $CLASS->new_readonly($file)->verify // 'unknown';
        });
        my $verdict = !defined $whole && $error =~ /\bis not frozen\b/
            ? 'not frozen, nothing to compare with'
            : !defined $whole      ? undef
            : $whole eq 'unknown'  ? 'no checksum, nothing to compare with'
            : $whole               ? 'OK'
            :                        'DAMAGED';
        if (!defined $verdict) {
            print STDERR 'cbf: ', one_line($error), "\n";
            $status = 2;
            next;
        }
        $status ||= 1 if $verdict ne 'OK';
        write_out("$file: $verdict\n") if !$option->{quiet};
    }
    return $status;
}

# ---- export, import ----------------------------------------------------

# A frozen image with its checksum, of whatever filter.
sub export {
    my ($option, $file) = @_;
    my $mode   = mode_of($option->{mode});
    my $output = $option->{output};
    die "--mode needs --output\n" if defined $mode && !defined $output;
    die "standard output is a terminal, and an image is no text; give"
        . " --output\n" if !defined $output && -t STDOUT;
    if (defined $output) {
        my $beside = reserve($output);
        publish(open_whole($file), $beside, $output, $mode);
        return 0;
    }
    my $filter = open_whole($file);
    my $image  = $filter->to_bytes;
    if (!$filter->frozen) {
        my $copy = $CLASS->new_from_bytes($image);
        $copy->freeze;
        $image = $copy->to_bytes;
    }
    write_out($image);
    return 0;
}

sub import_image {
    my ($option, $target, $from) = @_;
    my $mode = mode_of($option->{mode});
    $from //= '-';
    Data::CountingBloomFilter::Shared::Command::Input::check_file($from);
    my $beside = reserve($target);
    my $source = Data::CountingBloomFilter::Shared::Command::Input::open_source(
        $from);
    my $bytes = '';
    while ($source->{read}->(\$bytes)) {
        stop_if_signalled();
    }
    my $shown = $from eq '-' ? 'standard input' : $from;
    my ($filter, $error) = attempt(sub { $CLASS->new_from_bytes($bytes) });
    die "$shown: ", one_line($error), "\n" if !$filter;
    # Only a file can be asked whether it is what was frozen.
    write_bytes(\$bytes, $beside);
    my ($whole) = attempt(sub {
        return $CLASS->new_readonly($beside)->verify // 1;
    });
    die "$shown: the image is damaged, its checksum does not match\n"
        if defined $whole && !$whole;
    undef $bytes;
    if ($option->{mutable}) {
        $bytes = $filter->to_bytes;
        publish_bytes(\$bytes, $beside, $target, $mode);
    }
    else {
        publish($filter, $beside, $target, $mode);
    }
    return 0;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Files - commands for whole filters

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 FUNCTIONS

=head2 create, merge, freeze, verify, export, import_image

The commands: each takes the options and the arguments, and returns the exit
status.

=cut
