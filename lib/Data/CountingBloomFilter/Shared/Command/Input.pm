package Data::CountingBloomFilter::Shared::Command::Input;
# From standard input or files to batches of items: reading in blocks, cutting
# at separators, columns, compressed files.  What is done with a batch is the
# caller's business, and so is what it means; who works on which block when
# several processes do is Workers'.

use 5.022;
use strict;
use warnings;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(one_line stop_if_signalled undisturbed write_out);
use Data::CountingBloomFilter::Shared::Command::Progress;
use Data::CountingBloomFilter::Shared::Command::Workers ();

# By measurement on lines of 8 bytes: a block and its lines stay in the cache
# of a processor, and what a batch costs once is nothing beside its items.
my $BLOCK_BYTES = 32768;

# What one of several processes takes at a time: some milliseconds of work, for
# a scheduler that finds two of them on one processor needs as long to notice.
my $SHARE_BYTES = 8 * $BLOCK_BYTES;

# The same where texts had better be large, for their items are sorted before
# they are added: one item takes, with a table of 64 MiB, 210 ns in a text of 32
# KiB, 130 of 256 KiB, 100 of 1 MiB, 60 of 4 MiB and 55 of 8 MiB.  So a second is
# spent on waiting for more.
my $TEXT_BYTES   = 4 * 1024 * 1024;
my $TEXT_SECONDS = 1;

# Input that is worth the start of more processes: some 10 ms of work.
my $ALONE_BYTES = 512 * 1024;

my $COMPRESSED = qr/\.(?:gz|bz2|xz|lzma|zst)\z/i;

my $FIELD_MAX = 32_000;    # a regular expression repeats no more

# Of options: null, field, delimiter, item, jobs, quiet, and name for the
# progress.  Finds now what can be found wrong before anything is done.
sub new {
    my ($class, $option, @files) = @_;
    my $items = $option->{item} || [];
    @files = ('-') if !@files && !@$items;
    check_file($_) for @files;
    my $self = bless {
        separator => $option->{null} ? "\0" : "\n",
        field     => _field($option),
        items     => $items,
        files     => \@files,
        jobs      => _jobs($option->{jobs}),
        quiet     => $option->{quiet},
        name      => $option->{name},
        stopped   => 0,
    }, $class;
    return $self;
}

# How many processes may work: what was asked for, or the processors there are,
# but no more than a program should take without being asked.
sub _jobs {
    my ($jobs) = @_;
    return Data::CountingBloomFilter::Shared::Command::Workers::processors(4)
        if !defined $jobs;
    die "--jobs must be from 1 to 64, not $jobs\n" if $jobs < 1 || $jobs > 64;
    return $jobs;
}

# The pattern that finds a column of a line, or undef for whole lines.
sub _field {
    my ($option) = @_;
    my $n = $option->{field};
    if (!defined $n) {
        die "--delimiter needs --field\n" if defined $option->{delimiter};
        return undef;
    }
    die "--field must be from 1 to $FIELD_MAX, not $n\n"
        if $n < 1 || $n > $FIELD_MAX;
    my $delimiter = $option->{delimiter} // "\t";
    $delimiter = "\t" if $delimiter eq '\t';
    die "--delimiter must not be empty\n" if !length $delimiter;
    my $before = $n - 1;
    my $quoted = quotemeta $delimiter;
    return qr/\A(?:[^$quoted]*$quoted){$before}([^$quoted]*)/
        if length $delimiter == 1;
    return qr/\A(?:.*?$quoted){$before}(.*?)(?:$quoted|\z)/s;
}

sub separator { return $_[0]{separator} }

sub has_field { return defined $_[0]{field} }

# One process only: where the order of the work matters.
sub alone { $_[0]{jobs} = 1; return }

# No more batches, as soon as the one at hand is done.
sub stop { $_[0]{stopped} = 1; return }

# Dies unless a file is there and is something that can be read.  A pipe is not
# opened for that: its writer would see us leave again.
sub check_file {
    my ($file) = @_;
    if ($file eq '-') {
        return if defined fileno STDIN;
        die "standard input is closed\n";
    }
    stat $file or die "$file: $!\n";
    die "$file: Is a directory\n" if -d _;
    return if !-f _;
    open my $in, '<:raw', $file or die "$file: $!\n";
    return;
}

# Bytes to come, or undef where that can't be known.
sub _total {
    my ($self) = @_;
    my $total = 0;
    for my $file (@{ $self->{files} }) {
        return undef if $file =~ $COMPRESSED;
        my @st = $file eq '-' ? stat STDIN : stat $file;
        return undef if !@st || !-f _;
        $total += $st[7];
    }
    return $total;
}

# How many items all files hold, counted without making them; undef where they
# can be read only once.  Lines without the column count, too.
sub count_ahead {
    my ($self) = @_;
    my $count = @{ $self->{items} };
    for my $file (@{ $self->{files} }) {
        return undef if !($file eq '-' ? -f STDIN : -f $file);
        my $start = $file eq '-' ? sysseek STDIN, 0, 1 : 0;
        $count += $self->_count_in(open_source($file));
        sysseek STDIN, $start, 0 if $file eq '-';
    }
    return $count;
}

sub _count_in {
    my ($self, $source) = @_;
    my ($count, $last, $text) = (0, $self->{separator}, '');
    while ($source->{read}->(\$text)) {
        stop_if_signalled();
        $count += $self->{separator} eq "\n" ? $text =~ tr/\n//
            : $text =~ tr/\0//;
        $last = substr $text, -1;
        $text = '';
    }
    return $count + ($last ne $self->{separator});
}

# {read} appends a block to the string behind a reference and returns how many
# bytes, 0 at the end; {handle} is there if another process can read it, too;
# {shown} is its name in messages; {path} names a file that is read as it is.
sub open_source {
    my ($file) = @_;
    my $handle;
    if ($file eq '-') {
        $handle = \*STDIN;
        binmode $handle;
    }
    else {
        open $handle, '<:raw', $file or die "$file: $!\n";
        return _uncompressed($file, $handle) if $file =~ $COMPRESSED;
    }
    my $shown = $file eq '-' ? 'standard input' : $file;
    return {
        handle => $handle,
        shown  => $shown,
        path   => $file eq '-' ? undef : $file,
        read   => sub {
            return _read_block($handle, $_[0], $BLOCK_BYTES, $shown);
        },
    };
}

sub _read_block {
    my ($handle, $buffer, $bytes, $shown) = @_;
    while (1) {
        my $n = sysread $handle, $$buffer, $bytes, length $$buffer;
        return $n if defined $n;
        die "$shown: $!\n" if !$!{EINTR};
        stop_if_signalled();
    }
}

# A part of Spool's as such a source.
sub _source_again {
    my ($part) = @_;
    my ($at, $end) = ($part->{start}, $part->{start} + $part->{bytes});
    if (my $text = $part->{text}) {
        return { read => sub {
            my $n = $end - $at < $BLOCK_BYTES ? $end - $at : $BLOCK_BYTES;
            ${ $_[0] } .= substr $$text, $at, $n;
            $at += $n;
            return $n;
        } };
    }
    my $handle =
        Data::CountingBloomFilter::Shared::Command::Spool::handle_of($part);
    sysseek $handle, $at, 0 or die "$part->{shown}: $!\n";
    return { handle => $handle, read => sub {
        # Asked each time, for other processes read from it as well.
        my $left = $end - sysseek $handle, 0, 1;
        return 0 if $left <= 0;
        return _read_block($handle, $_[0],
            $left < $BLOCK_BYTES ? $left : $BLOCK_BYTES, $part->{shown})
            || die "$part->{shown}: changed while it was read\n";
    } };
}

sub _uncompressed {
    my ($file, $handle) = @_;
    require IO::Uncompress::AnyUncompress;
    # Strict, for else the checksum at the end would not be looked at.
    my $z = IO::Uncompress::AnyUncompress->new($handle, MultiStream => 1,
        Transparent => 0, Strict => 1);
    my $why = sub {
        stop_if_signalled();
        die "$file: can't be uncompressed: "
            . ($IO::Uncompress::AnyUncompress::AnyUncompressError
                || 'unknown kind, or its module is not installed') . "\n";
    };
    $why->() if !$z;
    return {
        shown => $file,
        read  => sub {
            my ($buffer) = @_;
            my $n = $z->read($$buffer, $BLOCK_BYTES, length $$buffer);
            $why->() if $n < 0;
            return $n;
        },
    };
}

# Reads on until the buffer holds whole items and no more than $rest_max bytes
# of the next, which are cut off and returned; undef at the end of the input,
# with what is left in the buffer.  Up to as many bytes as {share} of the source
# says are taken if they are there, and waited for as many seconds as {patience}.
sub read_items {
    my ($source, $buffer, $separator, $rest_max) = @_;
    my $share = $source->{share};
    my $until = time + ($source->{patience} || 0);
    my $end = 0;
    while (1) {
        my $old = length $$buffer;
        $source->{read}->($buffer) or return undef;
        # Looked for only in what is new: one item may be all of the input.
        $end = 1 + rindex $$buffer, $separator
            if index($$buffer, $separator, $old) >= 0;
        next if !$end;
        next if defined $rest_max && length($$buffer) - $end > $rest_max;
        next if defined $share && length $$buffer < $share
            && _is_ready($source->{handle}, $until - time);
        my $rest = substr $$buffer, $end;
        substr($$buffer, $end) = '';
        return $rest;
    }
}

# Whether a read would not wait, now or after at most so many seconds; what is
# uncompressed is made when it is asked for.
sub _is_ready {
    my ($handle, $seconds) = @_;
    return 1 if !$handle;
    vec(my $bits = '', fileno $handle, 1) = 1;
    return select($bits, undef, undef, $seconds > 0 ? $seconds : 0) > 0;
}

# The items in a text; the last one's separator may be missing.
sub _lines {
    my ($self, $text) = @_;
    my @lines = $self->{separator} eq "\n" ? split /\n/, $$text, -1
        : split /\0/, $$text, -1;
    pop @lines if substr($$text, -1) eq $self->{separator};
    return \@lines;
}

# Whether a callback can be given whole texts: nothing to be cut out of lines.
sub _takes_text {
    my ($self, $do) = @_;
    return $do->{text} && !defined $self->{field};
}

# Hands a text's items on, as it is or in batches, and returns what is to be
# printed.
sub batches {
    my ($self, $do, $text) = @_;
    return $do->{text}->($text) if $self->_takes_text($do);
    return $self->_batch($do, $text) if length $$text < 2 * $BLOCK_BYTES;
    my ($out, $at) = ('', 0);
    while ($at < length $$text) {
        my $end = index $$text, $self->{separator}, $at + $BLOCK_BYTES;
        $end = $end < 0 ? length $$text : $end + 1;
        my $part = substr $$text, $at, $end - $at;
        $out .= $self->_batch($do, \$part);
        $at = $end;
    }
    return $out;
}

# One batch: the items, and the lines they are from.  An item is undef where its
# line has no such column.
sub _batch {
    my ($self, $do, $text) = @_;
    return '' if !length $$text;
    my $lines = $self->_lines($text);
    my $field = $self->{field};
    return $do->{batch}->($lines, $lines) if !defined $field;
    return $do->{batch}->([map { $_ =~ $field ? $1 : undef } @$lines], $lines);
}

# All of the input.  Named arguments:
#   batch    called with (\@items, \@lines), returns what to print or ''
#   text     called instead, if it is there and items are whole lines, with
#            (\$text): items with their separators, the last one's may be missing
#   large    true if a text had better be large; then more is waited for
#   report   what this process has found so far, a list of numbers
#   prints   true if batches print: then in the order of the input
#   prepare  called with the number of processes, before there are several
#   ready    for run_whole: called last before anything is changed, and may wait
# Returns the sum of all processes' numbers.
sub run {
    my ($self, %do) = @_;
    my $progress = $self->{progress} =
        Data::CountingBloomFilter::Shared::Command::Progress->new(
        $self->{name}, $self->{quiet} || $do{prints} && -t STDOUT ? ()
            : (total => $self->{bytes} // $self->_total));
    my @sum;
    if (my @items = @{ $self->{items} }) {
        write_out($do{batch}->(\@items, \@items));
    }
    for my $file (@{ $self->{files} }) {
        last if $self->{stopped};
        my @more = $self->_run_file(\%do, $file, $progress);
        $sum[$_] += $more[$_] for 0 .. $#more;
    }
    $progress->end;
    my @own = $do{report}->();
    return map { ($sum[$_] || 0) + $own[$_] } 0 .. $#own;
}

# The same for what changes a filter, wholly or not at all: all of the input is
# read to its end before the first batch, and signals wait for the last one.
sub run_whole {
    my ($self, %do) = @_;
    my ($batch, $prepare, $begun) = @do{qw(batch prepare)};
    $do{batch} = sub {
        my $out = $batch->(@_);
        $begun = 1;
        return $out;
    };
    $do{prepare} = sub {
        $begun = 1;
        $prepare->(@_) if $prepare;
    };
    $self->_read_ahead;
    $do{ready}->() if $do{ready};
    my @sum;
    return @sum if eval {
        @sum = undisturbed(sub { return $self->run(%do) });
        1;
    };
    die $@ if !$begun;
    die one_line($@) . "; a part of the items is in\n";
}

# Reads everything, and has it read again by run.
sub _read_ahead {
    my ($self) = @_;
    return if !@{ $self->{files} };
    require Data::CountingBloomFilter::Shared::Command::Spool;
    my $progress = Data::CountingBloomFilter::Shared::Command::Progress->new(
        "$self->{name}, reading",
        $self->{quiet} ? () : (total => $self->_total));
    my $spool = Data::CountingBloomFilter::Shared::Command::Spool->new;
    for my $file (@{ $self->{files} }) {
        $spool->take(open_source($file), sub { $progress->more($_[0]) });
    }
    $progress->end;
    $self->{files} = [$spool->parts];
    $self->{bytes} = 0;
    $self->{bytes} += $_->{bytes} for @{ $self->{files} };
    return;
}

# A last line about what was done, where there was progress to be seen.
sub say { return $_[0]{progress}->say($_[1]) }

# One file; what other processes than this have found.
sub _run_file {
    my ($self, $do, $file, $progress) = @_;
    my $source = ref $file ? _source_again($file) : open_source($file);
    my ($buffer, $read, $rest) = ('', 0, '');
    my $rest_max = Data::CountingBloomFilter::Shared::Command::Workers
        ->REST_MAX;
    my $can_share = $self->{jobs} > 1 && $source->{handle};
    my $large = $do->{large} && $self->_takes_text($do);
    if ($large) {
        $source->{share} = $can_share ? $ALONE_BYTES : $TEXT_BYTES;
        $source->{patience} = $TEXT_SECONDS;
    }
    while (defined $rest) {
        stop_if_signalled();
        $rest = read_items($source, \$buffer, $self->{separator});
        $read += length $buffer;
        $progress->more(length $buffer);
        write_out($self->batches($do, \$buffer));
        return if $self->{stopped};
        $buffer = $rest;
        next if !defined $rest || !$can_share || $read < $ALONE_BYTES
            || length $rest > $rest_max;
        $source->{share} = $large ? $TEXT_BYTES : $SHARE_BYTES;
        my $others = $self->_run_in_ring($do, $source, $rest, $progress);
        return @$others if $others;
        $can_share = 0;
        $self->{jobs} = 1;
    }
    return;
}

# The rest of a file, by several processes; undef if there can't be any others.
sub _run_in_ring {
    my ($self, $do, $source, $rest, $progress) = @_;
    my $class = 'Data::CountingBloomFilter::Shared::Command::Workers';
    return $class->run($self->{jobs}, $do, $rest,
        sub {
            my ($text) = @_;
            return read_items($source, $text, $self->{separator},
                $class->REST_MAX);
        },
        sub { return $self->batches($do, $_[0]) },
        $progress);
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command::Input - items, batch by batch

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 METHODS

=head2 new(\%options, @files)

Options of the command line that say what items are, and where they come from.
Dies if a file can't be read, before anything is.

=head2 run(%callbacks)

Reads everything; see the comment above it.

=head2 run_whole(%callbacks)

The same, but reads everything to its end before anything is done with it.

=head2 alone, stop

Allows one process only; ends after the batch at hand.

=head2 separator, has_field

What stands between items, and whether they are columns of lines.

=head2 count_ahead

How many items will come, or undef if they can be read only once.

=head2 say($text)

Prints a last line, where progress was to be seen.

=head2 batches(\%callbacks, \$text)

Hands a text on, or cuts it into items and hands them on.

=head1 FUNCTIONS

=head2 check_file($path)

Dies if it can't be read.

=head2 open_source($path)

A reader of blocks, uncompressed where the name says so.

=head2 read_items($source, \$buffer, $separator, $rest_max)

Reads until there are whole items.

=cut
