package Data::CountingBloomFilter::Shared;

use 5.022;
use strict;
use warnings;

our $VERSION = '0.03';

require XSLoader;
XSLoader::load(__PACKAGE__, $VERSION);

# Storable and Sereal: what is stored is an image, so a restored filter, and a
# dclone, is an independent copy in private memory.  Either one calls its hooks
# by name, so neither must be there.  Threads need no hook: the object's magic
# is duplicated with it.  "goto" so that an error names the line which asked.
sub STORABLE_freeze {
    my ($self) = @_;
    return $self->to_bytes;
}

sub STORABLE_attach {
    my ($class, undef, $image) = @_;
    @_ = ($class, $image);
    goto &{ $class->can('new_from_bytes') };
}

# The protocol of Sereal, CBOR::XS and their kin: the serialiser's name comes
# first, and an image is right for all that keep strings of bytes.
sub FREEZE {
    my ($self) = @_;
    return $self->to_bytes;
}

sub THAW {
    my ($class, undef, $image) = @_;
    @_ = ($class, $image);
    goto &{ $class->can('new_from_bytes') };
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared - counting Bloom filter in shared memory

=head1 SYNOPSIS

    use Data::CountingBloomFilter::Shared;

    # Room for a million items; a wrong "yes" once in a thousand questions.
    my $seen = Data::CountingBloomFilter::Shared->new(
        'seen.cbf', 1_000_000, 0.001);

    print "new\n" if $seen->add('apple');       # 1: was not there before
    print "there\n" if $seen->contains('apple');
    print $seen->count_of('apple'), "\n";       # how often it was added
    $seen->remove('apple');                     # only what was added!

    # Whole batches, under one lock or none.
    $seen->add_many(['pear', 'plum']);
    my @new = $seen->absent(['plum', 'cherry']);        # ('cherry')
    print "I am the first\n" if $seen->add_if_absent('cherry');

    print $seen->count, " different items\n";   # an estimate

    # Publish a read-only copy, for any number of readers.
    $seen->save('published.cbf', 0644);
    my $reader =
        Data::CountingBloomFilter::Shared->new_readonly('published.cbf');
    print "listed\n" if $reader->contains('pear');

=head1 THE FIRST FIVE MINUTES

=head2 What it is for

Many processes ask "have I seen this before?", and one small table answers them
all.  The table does not hold the items, only a few counters for each, so its
size does not depend on how long they are: a million items take about 8 MB with
one wrong answer in a thousand.

What it can tell:

=over 4

=item *

"No, never" is always right.

=item *

"Yes" is wrong now and then: at the rate that you choose, as long as you put in
no more items than you planned for.

=item *

It counts, so items can be taken out again, and it can say how often one was
added, up to 14.

=item *

It can't list what it holds.

=back

Good for: visitors, messages or URLs that were seen before; jobs that were
claimed; a block list that is asked a thousand times a second; asking a
database only about what it may have.

=head2 A small program

    use strict;
    use warnings;
    use Data::CountingBloomFilter::Shared;

    my $seen = Data::CountingBloomFilter::Shared->new(undef, 1000);
    for my $word (qw(to be or not to be)) {
        print $seen->add($word) ? "$word is new\n" : "$word again\n";
    }

It prints:

=for sample output

    to is new
    be is new
    or is new
    not is new
    to again
    be again

C<undef> means: no file, just memory.  C<1000> is how many different items you
expect.  The rate is 0.01 unless you say otherwise.

=head2 With forked workers

A filter that was made before a fork is shared by parent and children.  Nothing
else is needed, no lock of your own either.

    use strict;
    use warnings;
    use Data::CountingBloomFilter::Shared;

    my $seen = Data::CountingBloomFilter::Shared->new(undef, 1000, 0.0001);
    for my $worker (1 .. 4) {
        my $pid = fork // die "fork: $!";
        next if $pid;
        $seen->add("visitor-$_") for 1 .. 300;      # all see the same ones
        exit;
    }
    1 while wait != -1;
    print 'different: about ', $seen->count, "\n";
    print 'visitor-7 came ', $seen->count_of('visitor-7'), " times\n";
    print 'visitor-x came ', $seen->count_of('visitor-x'), " times\n";

It prints:

=for sample output

    different: about 299
    visitor-7 came 4 times
    visitor-x came 0 times

300 is right: C<count> estimates from how full the table is.

=head2 In a file

With a path the filter lives in a file.  Processes that know nothing of each
other share it by opening the same path, and it is there again tomorrow.

    use strict;
    use warnings;
    use Data::CountingBloomFilter::Shared;

    for my $day (1, 2) {
        my $seen = Data::CountingBloomFilter::Shared->new('seen.cbf', 1000);
        print "day $day: ", $seen->add('apple') ? 'new' : 'seen before', "\n";
    }

It prints:

=for sample output

    day 1: new
    day 2: seen before

=head2 Freeze and ship

A frozen filter can't be changed any more, by nobody.  It can be copied, also
to another machine, and read from there by any number of processes.  C<save>
makes a frozen copy of a filter that goes on living.

    use strict;
    use warnings;
    use Data::CountingBloomFilter::Shared;

    my $class = 'Data::CountingBloomFilter::Shared';
    my $list  = $class->new(undef, 1000, 0.001);
    $list->add_many([map { "bad-$_" } 1 .. 500]);
    $list->save('list.cbf', 0644);

    # In another process, on another day:
    my $blocked = $class->new_readonly('list.cbf');
    print 'whole: ', $blocked->verify, "\n";
    for my $name (qw(bad-77 good-77)) {
        print "$name: ", $blocked->contains($name) ? 'blocked' : 'fine', "\n";
    }

It prints:

=for sample output

    whole: 1
    bad-77: blocked
    good-77: fine

That is all you need to begin.  Before you call C<remove>, read
L</REMOVING SAFELY>.  Ready-made programs stand in
L<Data::CountingBloomFilter::Shared::Cookbook>.

=head1 ABOUT THE SAMPLES

From here on, these lines stand before each short sample:

=for sample preamble

    use Data::CountingBloomFilter::Shared;
    my $class  = 'Data::CountingBloomFilter::Shared';
    my $filter = $class->new(undef, 1000);
    my $item   = 'apple';
    my @items  = ('apple', 'pear', 'plum');

In what is said about cost, I<k> is the number of hashes, I<m> the number of
counters, and I<n> the number of items in a batch.

=head1 CONSTRUCTORS

All are class methods, and may be called on an object as well, whose class is
then used.  Subclasses get objects of their own class.  Each croaks if it can't
give you a filter; then nothing was made and no file was changed.

=head2 new

    my $filter = $class->new('seen.cbf', 100_000, 0.001, 0640);

C<< new($path, $capacity, $fp_rate = 0.01, $mode = 0600) >> opens the filter at
C<$path>, or makes it if there is none.

=over 4

=item $path

A string of bytes.  C<undef> gives an anonymous filter: memory without a name,
shared with the children that are forked later, and gone with the last of them.
The empty string is an error, so that a variable you forgot to set does not
quietly become a filter that nobody shares.

A relative path is looked up when C<new> is called.  The last part of the path
must not be a symbolic link.

=item $capacity

How many different items you expect; at least 1.  A fraction is cut off.

=item $fp_rate

The rate of wrong answers "yes" when that many are in; between 0 and 1, both
excluded.  C<undef> means the default.  See L</SIZING> for what this costs.

=item $mode

The permissions of a new file: 0 to 07777.  The file gets exactly these, umask
does not narrow them.  C<undef> means the default.  An existing file keeps its
own.

=back

If the file is there, B<its own> capacity, rate, counters and hashes are used,
whatever the arguments say; they are checked all the same.  So all processes
can call C<new> with the same arguments, and the first one makes the file.
When several do so at the same time, one makes it and the others open it.

These are made into a new filter: no file; an empty file that belongs to you; a
file that belongs to you, is all zero and has exactly the size that is needed
(what an interrupted C<new> leaves, or you have made to reserve the space, see
L</DISK SPACE>).  Everything else that is not a filter is refused and left as
it is, and so is a frozen one: open that with L</new_readonly>.

Opening an existing file costs the same for every size, unless the process that
used it last was killed in the middle of a C<clear>, which is finished first.

While a handle is open it keeps one descriptor of the file (close-on-exec) with
a shared L<flock(2)> on it.  See L</SEVERAL PROCESSES>.

=head2 new_memfd

    my $filter = $class->new_memfd('jobs', 10_000, 0.001);

C<< new_memfd($name, $capacity, $fp_rate = 0.01) >> makes a filter in a memfd:
it has no name in any file system, but a descriptor, that can be passed to
other processes.  See L</memfd> and F<eg/memfd.pl>.  C<$name> is a label that
shows up in F</proc>, of at most 249 bytes; C<undef> is fine.  The memfd is
sealed against shrinking and growing, so nobody can cut it while others use it.

=head2 new_from_fd

    my $parent = $class->new_memfd('jobs', 10_000);
    my $filter = $class->new_from_fd($parent->memfd);

C<< new_from_fd($fd) >> opens the filter behind a descriptor: a number or a
Perl file handle.  It must be open for reading and writing.  The filter gets a
descriptor of its own for the same file; yours stays yours, with its position
and its flock, close it when you like.  A frozen filter is refused.

=head2 new_readonly

    $filter->save('list.cbf');
    my $reader = $class->new_readonly('list.cbf');

C<< new_readonly($path) >> opens a B<frozen> filter for reading.  It maps the
file without the right to write, needs no permission to write, works on a
read-only file system, and keeps no descriptor.  A file that is not frozen is
refused, since its counters could change under the reader; open that with
L</new>.

=head2 new_from_bytes

    my $copy = $class->new_from_bytes($filter->to_bytes);

C<< new_from_bytes($bytes) >> makes an anonymous filter, that can be changed,
from an image: what L</to_bytes> gave, or the contents of a file of a filter,
frozen or not.  The header is checked.  The counters are taken as they are: to
find out whether they arrived whole, write the image of a frozen filter to a
file, open that with C<new_readonly> and ask L</verify>.

=head1 METHODS

Each method croaks if the invocant is not a filter of this class, and after the
filter has been destroyed.  A croak begins with C<< CLASS->method: >> and ends
with the line of the caller.  See L</DIAGNOSTICS> for all of them.  After a
croak the filter is as it was.  If the system is to blame, C<$!> says why.

Methods that change the filter croak if it is frozen or read-only.  They can
wait for each other; see L</GUARANTEES AND LIMITS>.

0 is returned as C<0>, not as the empty string.

=head2 Single items

Cost: one hash of the item, then I<k> counters.

=head3 add

    my $is_new = $filter->add($item);

Adds 1 to each of the item's I<k> counters, those at 15 excepted.  Returns 1 if
at least one of them was 0, which means that the item was surely not there
before.  Returns 0 if it was there, or looked like it.  Of several processes
that add the same new item at the same time, exactly one gets 1.

=head3 contains

    my $is_there = $filter->contains($item);

1 if all counters of the item are above 0: it is probably there.  0 if one is
0: it is surely not.  Takes no lock, writes nothing and never waits.  Stops at
the first 0.

=head3 count_of

    my $times = $filter->count_of($item);

How often the item was added: the smallest of its counters, from 0 to 15.  15
means "15 or more", or that it once was.  The result is never too small for
what was added and not removed, but it may be too large where other items share
all its counters.  No lock, no wait.

=head3 remove

    $filter->add($item);
    my $was_there = $filter->remove($item);

If the item looks present, takes 1 from each of its counters, those at 15
excepted, and returns 1.  Else changes nothing and returns 0.  B<Read
L</REMOVING SAFELY> first.>

=head3 add_if_absent

    my $is_mine = $filter->add_if_absent($item);

If the item is absent, adds it and returns 1.  Else changes nothing and returns
0.  Looking and adding happen under one lock, so of several processes one wins.
This keeps the counters of items that come often at 1, where C<add> would bring
them to 15.

=head2 Batches

Each takes a reference to an array, and croaks if it is something else.  The
array may be empty, very large, or tied; holes count as C<undef>.  All elements
are read first, each exactly once, and hashed; that takes 16 bytes an item for
the time of the call, and no copy of the items.  If reading one croaks, nothing
was done.  Then comes the work: those that change the filter take the lock once
for the whole batch, the others take none.

A batch that is killed in the middle has done some of its items, from the first
on, and none by half.  Cost: I<n> times that of a single item, and much less
for each of them; see L</PERFORMANCE>.

=head3 add_many

    my $n_new = $filter->add_many(\@items);

Adds all; returns for how many L</add> would have returned 1.

=head3 remove_many

    $filter->add_many(\@items);
    my $n_removed = $filter->remove_many(\@items);

Removes all; returns how many were there.  An item that is twice in the array
is removed twice.

=head3 contains_many

    my @answers = $filter->contains_many(\@items);
    my $n_there = $filter->contains_many(\@items);

In list context 1 or 0 for each item, in order.  In scalar context how many are
there.  The answers in the list are read-only values; copy them, as the
assignment above does, before you change them.

=head3 count_of_many

    my @times   = $filter->count_of_many(\@items);
    my $n_there = $filter->count_of_many(\@items);

The same with L</count_of>: in scalar context how many are above 0.

=head3 present

    my @known   = $filter->present(\@items);
    my $n_known = $filter->present(\@items);

The items that are probably there, in order; in scalar context their number.
In list context you get the elements of the array themselves, as C<grep> gives
them, not copies.

=head3 absent

    my @unknown   = $filter->absent(\@items);
    my $n_unknown = $filter->absent(\@items);

The same for those that are surely not there.

=head3 add_if_absent_many

    my @mine   = $filter->add_if_absent_many(\@items);
    my $n_mine = $filter->add_if_absent_many(\@items);

L</add_if_absent> for all; returns the items that this call has added, in
order, as elements of the array; in scalar context their number.  The second
copy of an item in one array is not added and not returned.

=head2 The whole filter

Cost: I<m> counters, at about the speed of memory.

=head3 clear

    $filter->clear;

Sets all counters to 0.  Returns nothing.  A C<clear> whose process is killed
in the middle is finished by the next one that takes the lock.

=head3 merge

    my $other = $class->new(undef, 1000);
    $other->add_many(\@items);
    $filter->merge($other);

Adds each counter of the other filter to this one's, stopping at 15, as if all
its adds had been made here, too.  Returns nothing.

Both must have the same number of counters and of hashes: make them with the
same capacity and rate.  C<geometry mismatch> names both if not.  The target
keeps its own capacity and rate.

The other filter may be of any kind: frozen, read-only, or the filter itself,
whose counters all double then.  One that can still change is first copied at
one moment under its own lock, which takes memory for its counters.  Two locks
are never held at once, so filters can be merged crosswise.

=head3 freeze

    my $list = $class->new('list.cbf', 1000);
    $list->freeze;
    print $list->readonly, "\n";    # 1

Seals the filter for ever.  There is no way back.  Stores a checksum of the
counters (see L</verify>), flushes them to the disk, then sets the seal and
flushes that, so a file which is sealed on disk is whole on disk.  Returns
nothing.

From then on this handle is read-only.  So in effect are all other handles of
the same filter, in every process: whatever would change it croaks.  Reading
goes on without any lock.  C<freeze> on a filter that another handle has frozen
croaks with C<already frozen>.  If the disk fails while the seal itself is
flushed, C<freeze> croaks although the filter is frozen.

=head3 histogram

    my $n = $filter->histogram;
    print "$n->[0] counters are 0, $n->[15] are stuck at 15\n";

A reference to an array of 16: how many counters hold 0, 1, ... 15.

=head3 verify

    $filter->save('list.cbf');
    my $whole = $class->new_readonly('list.cbf')->verify;

Compares the counters with the checksum that C<freeze> or C<save> stored.  1:
they match.  0: they don't; the copy is torn or the disk has lost bits.
C<undef>: there is nothing to compare with, since the filter is not frozen, or
was frozen by release 0.02 or older.

=head2 Figures

All cost the same for a filter of any size, since totals are kept beside the
counters.  The exception: after release 0.01 or 0.02 has written to the file,
they are counted once.  C<count>, C<stats> and C<estimated_fp_rate> show one
moment and may wait for a writer; the others don't.

=head3 count

    my $n_different = $filter->count;

An estimate of how many different items are in: C<-(m/k) ln(1 - X/m)>, rounded,
where I<X> counters are above 0 (Swamidass and Baldi, 2007).  It never falls as
more counters are set, and it is a number also when all are: then I<X> is taken
as I<m> - 1.

=head3 stats

    my $stats = $filter->stats;
    printf "%.1f %% full\n", 100 * $stats->{fill_ratio};

A reference to a new hash:

=over 4

=item capacity, fp_rate, counters, hashes

The geometry, as below.

=item counters_set

How many counters are above 0.

=item fill_ratio

C<counters_set / counters>.

=item items

The sum of all counters, divided by I<k>: adds minus removes, exactly, as long
as no counter has reached 15.

=item saturated

How many counters are at 15.

=item count, estimated_fp_rate

As the methods of that name say.

=item ops

How many calls that change the filter were made since it was created, by all
processes: C<add>, C<remove>, C<add_if_absent>, their batches, C<merge>,
C<clear>.  A batch is one call.  Calls that changed nothing count, too.

=item recovered

How often a process has died in the middle of a change, or with the lock, and
another one has taken over.

=item mmap_size

The size of the mapping, and of the file, in bytes.

=item frozen, readonly

1 or 0.

=back

=head3 estimated_fp_rate

    my $rate = $filter->estimated_fp_rate;

The chance that an item which was never added looks present now: C<(X/m) ** k>
(Bloom, 1970).  With few counters the real rate is higher, see
L</With few counters>.

=head3 capacity, counters, hashes, fp_rate

    printf "%d items, %d counters, %d hashes, rate %g\n", $filter->capacity,
        $filter->counters, $filter->hashes, $filter->fp_rate;

What the filter was planned for, and the I<m> and I<k> that follow from it.  Of
an existing file these are its own.

=head3 frozen

    my $is_sealed = $filter->frozen;

1 if the filter is frozen, by whomever, else 0.

=head3 readonly

    my $only_reads = $filter->readonly;

1 if this handle can't change the filter: it was opened by C<new_readonly>, or
has itself called C<freeze>.  Else 0.

=head3 geometry

    my $plan = $class->geometry(1_000_000, 0.001);
    print "$plan->{mmap_size} bytes\n";

A class method, for planning: what C<new> with this capacity and rate would
make, as a reference to a hash with C<counters>, C<hashes> and C<mmap_size>.
Croaks as C<new> does.

=head2 Files, descriptors and copies

=head3 path

    my $path = $filter->path;

The path as it was given to the constructor; C<undef> for filters without one.

=head3 memfd

    my $shared = $class->new_memfd('jobs', 1000);
    my $fd = $shared->memfd;

The number of the descriptor: the memfd of C<new_memfd>, or the one that
C<new_from_fd> has for itself; else -1.  It is close-on-exec, and belongs to
the filter: don't close it.

=head3 sync

    my $file = $class->new('seen.cbf', 1000);
    $file->sync;

Flushes the file to the disk, and returns when it is there.  Nothing to do for
filters without a file.  Returns nothing.  See L</CRASH SAFETY> for what it is
worth.

=head3 reserve

    my $large = $class->new('large.cbf', 100_000, 0.001);
    $large->reserve;

Gives the file all the blocks of its size, so that no later change can fail for
want of them; croaks with the system's reason (C<No space left on device>) if
they are not to be had.  For a memfd it is memory.  Nothing to do for an
anonymous filter.  Croaks if the filter is frozen or read-only.  Returns
nothing.  See L</DISK SPACE>.

=head3 unlink

    $class->new('old.cbf', 1000)->unlink;
    $class->unlink('older.cbf');

On an object: removes the file at its path, if it has one.  On a class: removes
the file at the given path.  That it is gone already is fine; all else croaks.
Returns nothing.

Those who have it open go on with what they have, and share it with each other.
A C<new> at that path makes another filter, which has nothing to do with it.

=head3 save

    $filter->save('list.cbf', 0644);

C<< save($path, $mode = 0600) >> writes a frozen copy of the filter as it is at
one moment: beside C<$path>, under a name like F<.list.cbf.4711.0.tmp>; flushes
it; renames it to C<$path>; flushes the directory.  Whoever opens C<$path>
finds what was there before or the new file, never a half, also after a crash.
The file gets exactly C<$mode>.  Returns nothing.

What was at C<$path> may be missing, a file, or a symbolic link, which is
replaced and not followed.  It takes memory for a copy of the counters.  Other
processes can go on meanwhile; only the copying keeps writers waiting.  A
process that is killed in the middle may leave the hidden file behind.

=head3 refresh

    $filter->save('list.cbf');
    my $reader = $class->new_readonly('list.cbf');
    $filter->add($item);
    $filter->save('list.cbf');
    print $reader->refresh, $reader->contains($item), "\n";    # 11

For a handle of C<new_readonly>: if its path names another file by now, opens
that and goes over to it, and returns 1.  If not, returns 0, at the cost of one
system call.  If the new file is bad, croaks, and the handle goes on serving
the old one.  A missing file is no new one: 0.  The new file may be of another
size.  A handle of another constructor has nothing to refresh: 0.

Whether all counters arrived is not looked at, as that would take as long as
reading the file.  Put files in place by C<save>, or by a copy beside the path,
C<verify> and a rename, never by writing to the path itself: a program that
makes the file full-sized first and fills it later shows readers a filter that
lacks items, and one that cuts it short kills them with SIGBUS.

=head3 to_bytes

    my $image = $filter->to_bytes;

The filter as it is at one moment, as a string in the file format.  A frozen
filter gives a frozen image.  Written to a file it is one that C<new> or, if
frozen, C<new_readonly> opens.  L</new_from_bytes> is the way back.

=head3 STORABLE_freeze, STORABLE_attach, FREEZE, THAW

    use Storable ();
    my $copy = Storable::dclone($filter);

The hooks of L<Storable>, and those of L<Sereal> (with its option
C<freeze_callbacks>) and of L<CBOR::XS>, which are the same.  A filter that is
stored and restored, or cloned, is an independent anonymous copy that can be
changed, also if the original is frozen.  One filter at two places of a
structure stays one.  What is restored is checked as C<new_from_bytes> checks
it.

=for sample needs Sereal::Encoder

    use strict;
    use warnings;
    use Data::CountingBloomFilter::Shared;
    use Sereal::Decoder;
    use Sereal::Encoder;

    my $filter = Data::CountingBloomFilter::Shared->new(undef, 1000);
    $filter->add('apple');
    my $bytes = Sereal::Encoder->new({ freeze_callbacks => 1 })
        ->encode({ list => $filter });
    my $copy = Sereal::Decoder->new->decode($bytes)->{list};
    print $copy->contains('apple'), "\n";    # 1

A filter that was stored without its hooks, as Sereal does without that option,
comes back as an object that is no filter: its methods croak.

=head3 DESTROY

Closes the handle.  Perl calls it when the last reference goes.  Called by
hand, it leaves an object whose methods croak; the filter lives on for others.

=head2 The arithmetic

=for sample text

    k = round(-log2(fp_rate)), at least 1 and at most 32
    m = the smallest power of two that is at least
        capacity * k / ln 2, at least 64 and at most 2**38
    position of probe i = (lo + i * (hi | 1)) mod m

I<lo> and I<hi> are the halves of the item's 128-bit XXH3 hash, seed 0.  An
item is hashed once, however large I<k> is.  The step is odd and I<m> a power of two
above I<k>, so all positions of an item differ.

=over 4

=item *

That I<k> positions for each item, in a table that may answer wrongly, save
space: B. H. Bloom, "Space/time trade-offs in hash coding with allowable
errors", Communications of the ACM 13 (7), 1970.

=item *

Counters in place of bits, and that four bits are enough: L. Fan, P. Cao, J.
Almeida, A. Z. Broder, "Summary cache: a scalable wide-area web cache sharing
protocol", IEEE/ACM Transactions on Networking 8 (3), 2000.

=item *

All positions from two hash values: A. Kirsch, M. Mitzenmacher, "Less hashing,
same performance: building a better Bloom filter", ESA 2006.

=item *

The number of items from the number of counters set: S. J. Swamidass, P. Baldi,
"Mathematical correction for fingerprint similarity measures to improve
chemical retrieval", Journal of Chemical Information and Modeling 47 (3), 2007.

=back

=head1 ITEMS

=over 4

=item Bytes

Items are strings of bytes, of any length.  The empty string and strings with
NUL bytes are ordinary items.  Items that differ in one byte are different
items: C<Apple> is not C<apple>, and a line with its line end is not the same
line without.

=item Text

How Perl happens to store a string makes no difference: if all its characters
are below 256, it is the same item as its bytes.  A character above 255 has no
byte, so the call croaks with C<Wide character>.  Encode text first, and always
in the same way:

    use Encode ();
    my $word = "na\x{ef}vet\x{e9} \x{263a}";
    $filter->add(Encode::encode('UTF-8', $word));

=item Numbers

A number is the string that Perl prints for it: C<1>, C<1.0> and C<"1"> are the
same item, and C<"1.0"> is another.

=item undef

Counts as the empty string, with Perl's usual warning about an uninitialized
value.  So do holes in an array.

=item References and objects

Are turned into strings, by their own overloading if they have it.  Without it
that string is an address, which means nothing in another process.

=item Tied and magical values

Work.  Their code runs once for each item, before any lock is taken.  Whatever
it does, also if it destroys the filter or dies, nothing breaks.

=back

=head1 REMOVING SAFELY

A filter can't tell an item that was added from one that only looks so, because
other items happen to have set all its counters.  If you remove such a
stranger, you take away what belongs to others, and one of them may be gone.
Then "no" is no longer always right:

    my $fruit = $class->new(undef, 20, 0.5);    # a bad rate, to show it soon
    $fruit->add('apple');
    my ($stranger) = grep { $fruit->contains($_) } map { "nut-$_" } 1 .. 1000;
    $fruit->remove($stranger);                  # never added!
    print $fruit->contains('apple') ? "there\n" : "apple is lost\n";

=for sample output

    apple is lost

So: B<remove only what was added, and as often as it was added.>  That
C<contains> or C<remove> says 1 proves nothing.

The safe way is to let something exact decide: a queue, a row in a database, a
hash of what this process has put in.  It removes an item exactly when its own
record of it goes:

    my %mine;    # what this process has added, and how often

    sub enter {
        my ($session) = @_;
        $filter->add($session);
        $mine{$session}++;
    }

    sub leave {
        my ($session) = @_;
        return 0 if !$mine{$session};           # not ours: hands off
        delete $mine{$session} if !--$mine{$session};
        return $filter->remove($session);
    }

    enter('ada');
    print leave('ada'), leave('ada'), leave('bob'), "\n";

=for sample output

    100

With a database, remove the item if, and only if, your C<DELETE> has deleted
its row.  Of two processes that try, one deletes it.

Also safe: who got 1 from C<add_if_absent> may remove that item once, for
nobody else has added it with this method.  But who got 0 relies on an entry
that may belong to somebody else, and can lose it.

If a process dies, what it had added stays in.  Build the filter anew from the
exact record now and then, or work with filters that are thrown away as a
whole, as in the replay window of the
L<cookbook|Data::CountingBloomFilter::Shared::Cookbook>.

=head1 SATURATION

A counter has four bits.  At 15 it stops, and it never goes down again: it no
longer knows its true value, and one that is too high does less harm than one
that is too low.  So an item that was added 15 times stays present for ever,
however often it is removed; only C<clear> takes it out.

    $filter->add('often') for 1 .. 20;
    $filter->remove('often') for 1 .. 20;
    print $filter->count_of('often'), "\n";

=for sample output

    15

If different items are added once each, this practically never happens: in a
filter at its capacity the chance that a counter gets to 15 is about 1.6e-15,
so among 2**30 counters it is about 1.8e-06.  It happens when the same items
are added again and again.  Then use C<add_if_absent>, which adds them once.
C<< stats->{saturated} >> says how many counters are stuck.

=head1 SIZING

A file is 16,768 bytes for the header and the table of processes, and half a
byte for each counter.  The number of counters is a power of two.  So are the
steps in which the size grows, and a filter often has more room than you asked
for: up to twice as much.

=for sample table sizing

         capacity  rate       k        counters     file, bytes  /item  when full
            1,000  0.01       7          16,384          24,960  24.96  6.5e-04
            1,000  0.001     10          16,384          24,960  24.96  4.4e-04
            1,000  0.0001    13          32,768          33,152  33.15  7.9e-06
           10,000  0.01       7         131,072          82,304   8.23  2.1e-03
           10,000  0.001     10         262,144         147,840  14.78  1.1e-05
           10,000  0.0001    13         262,144         147,840  14.78  6.3e-06
          100,000  0.01       7       1,048,576         541,056   5.41  6.5e-03
          100,000  0.001     10       2,097,152       1,065,344  10.65  6.2e-05
          100,000  0.0001    13       2,097,152       1,065,344  10.65  4.4e-05
        1,000,000  0.01       7      16,777,216       8,405,376   8.41  5.4e-04
        1,000,000  0.001     10      16,777,216       8,405,376   8.41  3.3e-04
        1,000,000  0.0001    13      33,554,432      16,793,984  16.79  3.9e-07
        1,000,000  0.000001  20      33,554,432      16,793,984  16.79  1.2e-07
       10,000,000  0.01       7     134,217,728      67,125,632   6.71  1.8e-03
       10,000,000  0.001     10     268,435,456     134,234,496  13.42  8.5e-06
       10,000,000  0.000001  20     536,870,912     268,452,224  26.85  3.4e-10
      100,000,000  0.01       7   1,073,741,824     536,887,680   5.37  5.8e-03
      100,000,000  0.001     10   2,147,483,648   1,073,758,592  10.74  5.1e-05
    1,000,000,000  0.01       7  17,179,869,184   8,589,951,360   8.59  4.7e-04
    1,000,000,000  0.001     10  17,179,869,184   8,589,951,360   8.59  2.8e-04

"/item" is bytes of the file for each item of the capacity.  "When full" is the
rate to expect when as many items as that are in.

=over 4

=item *

In one line: 5.0 to 10.1 bytes an item at 0.01, 7.2 to 14.4 at 0.001, and the
fixed 16,768.

=item *

A million items cost the same at 0.01 and at 0.001.  Ask L</geometry> before
you decide.

=item *

The largest filter has 2**38 counters, which take 137,438,970,240 bytes.  At
0.01 it is for 27,218,692,313 items.

=item *

Nothing fails when more items come than were planned.  The rate of wrong
answers rises: at twice the items that fill half of the counters, from 0.0078
to 0.13 with 7 hashes.  Watch L</estimated_fp_rate>.  A filter can't grow; make
a larger one and fill it from the source of its items.

=back

To use all the room of a table of given size, turn the formula round:

    my $plan = $class->geometry(1_000_000, 0.001);
    my $room = int($plan->{counters} * log(2) / $plan->{hashes});
    print "$room\n";
    my $same = $class->geometry($room, 0.001)->{mmap_size};
    print $same == $plan->{mmap_size} ? "same size\n" : "larger\n";

=for sample output

    1162907
    same size

=head2 With few counters

All positions of an item follow from two numbers, modulo I<m>.  In a small
table there are not many such pairs, so a stranger may have the very positions
of a stored item, or all but one or two.  This adds at most about
C<12 n / m**2> to the rate, with I<n> items in the filter; it does not matter
what rate you asked for.  So a tiny rate can't be reached with few items:

=for sample table few

    capacity  rate asked for  hashes  counters  to expect when full
           1  0.01                 7        64  9.8e-04
           1  0.000001            20        64  9.8e-04
           5  0.01                 7        64  1.2e-02
          10  0.01                 7       128  7.2e-03
          10  0.001               10       256  1.1e-03
          10  0.000001            20       512  2.9e-04
         100  0.01                 7     1,024  8.2e-03
         100  0.001               10     2,048  2.9e-04
         100  0.000001            20     4,096  5.4e-05
       1,000  0.000001            20    32,768  1.0e-05
      10,000  0.000001            20   524,288  2.8e-07
      10,000  0.000000001         30   524,288  3.7e-07

The smallest filter has 64 counters.  C<estimated_fp_rate> does not know of
this effect.  If you need a smaller rate, plan for more items than there will
be: ten times the capacity makes this part about a hundred times smaller, at
ten times the size.

=head1 SEVERAL PROCESSES

Processes share a filter

=over 4

=item *

by path: each calls C<new> with the same one;

=item *

by fork: children use the handle that they inherit, and may destroy it without
disturbing their parent;

=item *

by a descriptor: C<new_from_fd> on one that came over a UNIX socket, or on
F</proc/PID/fd/N> opened for reading and writing (see F<eg/memfd.pl>).

=back

Any of them may call anything at any time.  No locks of your own are needed,
unless two calls must belong together: C<add_if_absent> joins the usual two.

Changes are made one after the other, under a write lock; point reads
(C<contains>, C<count_of>, and what is built on them) take no lock; and what
needs one moment of the whole table (C<count>, C<stats>, C<histogram>,
C<to_bytes>, C<save>, the source of C<merge>) takes a shared one.  Writers are
preferred: what needs a shared lock waits longer while many write.

A process that opens a file by path holds a shared L<flock(2)> on it.  That is
how C<new> finds out whether it is alone.  Don't lock a filter's file
exclusively yourself: C<new> waits 30 seconds for that and then croaks.

After an C<exec> the filter is gone from the process: descriptors are
close-on-exec, and mappings don't outlive it.

A daemon that closes all descriptors after a fork loses the filter's as well.
The filter notices before its first lock and opens the file again, under its
path or what the kernel calls it.  Only if that fails, it croaks
(C<its descriptor was closed>).

=head1 GUARANTEES AND LIMITS

What is promised, and where it ends.

=over 4

=item No false "no"

What was added and not removed is found.

I<Limits:> if only added items are removed, see L</REMOVING SAFELY>; not for a
file that lost power while it was written, see L</CRASH SAFETY>.

=item Wrong "yes" at the configured rate

At the capacity the rate is at most about 1.42 times what was asked for, and
mostly far below it, since the table is rounded up.

I<Limits:> few counters, see L</With few counters>; more items than planned;
items chosen by an adversary, see L</SECURITY>.  Rates above 0.71 or below
about 1.6e-10 have no hashes of their own: there are 1 to 32.

=item Point reads wait for nobody

C<contains>, C<count_of>, C<contains_many>, C<count_of_many>, C<present> and
C<absent> take no lock, write nothing to the mapping, and go on beside a long
merge, and beside a writer that is stopped or dead.  A finished C<add> of any
process is seen by all that begin to read after it.

I<Limits:> each item is looked at on its own, so a batch is not one moment of
the filter.  A page of a file that must come from the disk takes its time.

=item One winner

Of several processes that add the same fresh item at the same time, exactly one
gets 1: from C<add>, and from C<add_if_absent>.

I<Limits:> if the item looks present already, by a wrong "yes", nobody does.

=item A call is whole

An C<add>, a C<remove>, each item of a batch and a C<clear> are done or not
done, also if the process is killed with SIGKILL at any instruction: a
half-done item is taken back, a half-done C<clear> is finished, by whoever
takes the lock next.  A batch that is killed has done its first items.  A
C<freeze> that is killed has sealed or not.

I<Limits:> a C<merge> that is killed may stay half done.  No item disappears by
that, but some of the other filter's may be missing or look present; merge
again into a new filter.  All this is for killed processes, not for a machine
that loses power or a kernel that crashes.

=item Nobody waits long for the dead

If a process dies that holds the lock, the others go on after about 100 ms at
most.  That the dead are told from the living is right when pids are used
again, for zombies, after a reboot, and across PID namespaces.

I<Limits:> whether a process of another PID namespace (another container) is
alive can't be seen.  It is taken as alive; a call that has waited 30 seconds
for such a holder, without any progress, croaks and names its pid.  Nothing was
changed then.  Point reads are not concerned, and neither are processes of the
holder's own namespace, which take over at once.  Processes without a readable
F</proc> can judge fewer of the dead, and follow the same rule.

=item The living keep their lock

Nobody takes the lock from a process that is alive, however slow it is.

I<Limits:> so if it was stopped (SIGSTOP, a debugger) in the middle of a
change, others wait until it goes on, for as long as that takes.  An C<alarm>
with a handler that dies ends the wait; see L</SIGNALS>.

=item Nothing in a file at rest makes anybody wait

When no process has the file open, C<new> puts everything right that others
have left in it: half-done changes, locks, slots, damage.  That covers reboots
and copies of files that were in use.

I<Limits:> on a file system without L<flock(2)> nobody is ever alone, and
leftovers are judged one by one.  Another program's exclusive flock keeps
C<new> waiting, for up to 30 seconds.

=item As many processes as you like

I<Limits:> each handle in each process that has changed or scanned the filter
has one of 1024 slots.  When all are taken by the living, everything goes on,
but C<count>, C<stats> and the other scans of further processes take the write
lock, and then exclude each other.  Slots of processes of other PID namespaces
that were killed are free again when everybody has closed the file.

=item No damage reaches beyond the mapping

Whatever a file holds, and whatever others write over its header while it is
open: answers may be wrong, but no memory outside the mapping is touched, and
nobody waits for ever while no living process holds the lock.

I<Limits:> a file that is made shorter while it is open kills those who read
beyond its end with SIGBUS, see L</DISK SPACE>.

=item Children and threads

A child may use and destroy the handle that it got by fork; the parent does not
notice.  A handle that is cloned into a thread stays valid; the mapping goes
when the last one goes.

=item Old files

Files of releases 0.01 and 0.02 open here, and files of this release open
there.

I<Limits:> one after the other.  Old and new releases that have the same file
open at the same time are not supported.

=back

B<Not promised:> fairness to the microsecond; a shared filter on a network file
system; an order among processes beyond that of their calls; that memory which
the system has promised is there.  The last matters for anonymous filters and
memfds: the kernel hands out large mappings freely and finds the memory page by
page when counters are first touched.  If there is none left, or the container
has used up what it may, the kernel kills a process.  For the filter that is a
SIGKILL like any other: those who are left go on.

=head1 CRASH SAFETY

=for sample text

                             a process      all processes    power or
                             is killed      are killed       kernel fails
    anonymous, memfd         whole          gone             gone
    file, frozen or saved    whole          whole            whole
    file, mutable            whole          whole            anything between

"Whole" means: as after the last completed item.

A B<mutable file> is written back by the kernel page by page, when it likes.
If the power fails, some pages are of now and some of earlier: items may be
missing, and C<count> and C<stats> may be off.  The file opens all the same,
since nothing can tell.  C<sync> helps only if nothing is changed after it
until the power fails.

So, where a machine may fail: C<save> a copy every now and then.  It is flushed
before it takes its place, and carries a checksum.  After the crash go on from
the last one:

    $filter->add('apple');
    $filter->save('backup.cbf');

    # After a crash: a fresh file, and what the backup knows.
    my $backup = $class->new_readonly('backup.cbf');
    die "the backup is damaged\n" if !$backup->verify;
    $class->unlink('seen.cbf');
    my $again = $class->new('seen.cbf', $backup->capacity, $backup->fp_rate);
    $again->merge($backup);
    print $again->contains('apple'), "\n";

=for sample output

    1

A copy of a mutable file that was made with F<cp> while others wrote is of no
single moment either.  Use C<save> for copies.

How this was tried: the distribution's F<xt/> kills processes at random
instants and at every named point, and compares the table with a model, byte by
byte.  One run: 10481 kills, 31414 damaged inputs, 269 exact comparisons in two
minutes of a pool that was killed and forked all the time; no fault.  The table
of figures is in F<DESIGN>.

=head1 SECURITY

=over 4

=item Who may open it

A new file gets mode 0600, unless you give another, and then exactly that one;
umask has no say.  C<save> does the same.

=item Who may write may lie

Whoever has write permission can change any counter, so that items appear or
vanish, and can keep the lock, so that others wait.  They can also cut the
file, which kills the others with SIGBUS; a memfd is sealed against that.  They
can't make others read or write beyond the mapping, or run code.  Share a
mutable filter only among processes that trust each other.  To others give a
frozen file that they may only read, and that its owner replaces by C<save> and
never cuts.

=item Links and special files

C<new>, C<new_readonly> and C<refresh> refuse a symbolic link as the last part
of the path, and everything that is not a regular file, without blocking on a
FIFO.  C<save> replaces a link and does not follow it.  Links in the
directories above are followed: keep filters in directories that only you may
write.

=item Checked first

Nothing of a file is believed: size, magic number, version and each field are
checked before it is used, and it is never written to before it has passed.

=item Hash flooding

The hash has no secret in it, so that filters can be merged and shipped.
Somebody who may choose items can find, at home, items that meet the counters
of another one, and make a stranger look present, or bring counters to 15.
Where items come from people who may want that, add the result of a keyed hash
in place of the item:

    use Digest::SHA 'hmac_sha256';
    my $secret = 'from a file that only we may read';
    $filter->add(hmac_sha256($item, $secret));
    print $filter->contains(hmac_sha256($item, $secret)), "\n";

=item What a filter tells about its items

Not the items, but whoever can read the file can try: a guessed item can be
checked.  The keyed hash above prevents that as well.

=item Taint mode

Paths and items are not checked for taint.

=back

=head1 DISK SPACE

A new file is sparse: it has its full size, but the disk gives it blocks only
where counters are not 0.  Items spread over the whole table, so this does not
last: when 1 % of the capacity is in, practically all blocks are there.  Plan
for the full size.

If the disk is full at the moment when a counter in a new block is changed (on
a F<tmpfs>: when it is looked at), the kernel can't report an error, as there
is no system call.  It sends SIGBUS, and the process dies (C<Bus error>).  No
other item is lost, and the one under way is taken back as after any kill.  But
make room before you go on: until then, whoever needs such a block is killed in
the same way.

SIGBUS also comes to a process that touches a part of a file which somebody has
cut off, and when a disk fails to read.

To be sure, reserve the blocks when the file is new:

    my $sure = $class->new('sure.cbf', 100_000, 0.001);
    if (!eval { $sure->reserve; 1 }) {
        $sure->unlink;
        die $@;
    }

This is no help on file systems that write every change to a new place (Btrfs,
ZFS), or where others may use up a quota.  On a F<tmpfs> such as F</dev/shm>,
the size limit of the mount is the disk.

Errors that do have a system call behind them are reported: C<new>, C<reserve>,
C<sync>, C<freeze> and C<save> croak with the system's reason, and what was there before
stays.

A file's size never changes.  To replace a file that others have open, rename
another one over it, as C<save> does.  Never overwrite it in place, as F<cp>
does.

Network file systems (NFS, SMB, 9P, FUSE over a network) are not supported:
their clients do not share memory.

=head1 PERFORMANCE

Figures depend on the machine.  The programs in F<bench/> of the distribution
measure yours, and F<bench/README> says how to read them.  What holds
everywhere:

=over 4

=item *

C<contains> and C<count_of> cost a method call, a hash and up to I<k> counters.
No lock, no system call, no store to shared memory, so readers don't slow each
other down.  An absent item costs less than a present one: the first 0 ends it.

=item *

What counts in a large filter is the memory: each counter of an item is in
another cache line.  A smaller rate means more of them.  A filter that fits
into the processor's cache is much faster than one that does not.

=item *

For a large filter in memory (anonymous, a memfd, a file on tmpfs) huge pages
are asked for.  Most systems refuse them to such memory; with C<advise> in
F</sys/kernel/mm/transparent_hugepage/shmem_enabled> (and C<huge=advise> on a
tmpfs) adds to 128 MiB of counters took about two thirds of the time.  Then
memory comes in units of 2 MiB.

=item *

Batches are the way to speed: one call and one lock for all, and the counters
of the next items are on their way while one is worked on.  In scalar context
they build no list.

=item *

Changes are made one at a time, also on many processors.  If that is too
little, look with C<contains> first where most items are there already, collect
batches, or split by item: several filters, and the item says which.

=item *

C<count> and C<stats> are cheap.  C<clear>, C<merge>, C<freeze>, C<verify>,
C<histogram>, C<to_bytes> and C<save> go through all counters.

=item *

Strings that Perl stores as UTF-8 are converted first.  Plain bytes and
integers are not.

=back

One run of F<bench/peers.pl>, on two cores of a virtual machine (Intel Xeon,
Linux 6.18, perl 5.36, gcc 12; medians of 5 interleaved rounds): nanoseconds an
item with 50000 items of 8 to 20 bytes in the store, batches of 1000.  "Two" is
what an add and a look-up cost while two processes do both, "lost" would be
items that were added and not found.

=for sample text

                            add     hit    miss  batch  batch     two  bytes  false
                                                   add    hit           item  yes %
    this module             226      72      77     36     22     233    5.7   0.66
    Perl hash              1033     156     134    580    125       -  153.7   0
    Bloom::Filter         15849   14636   14306  15078  14083       -   11.3   0.99
    Hash::SharedMem        4697     473     704      -      -    1716  133.4   0
    LMDB_File              8354    7304    7946   2031   1395    9829  129.1   0
    Cache::FastMmap        4211    2974    3209      -      -    2731  141.6   0
    BerkeleyDB             1469     875    1268      -      -   20422   26.8   0
    Redis set, UNIX      101700  101376  107958   3058   2515   32786   67.6   0

No item was lost by any.  The add of this module is mostly the first touch of
fresh memory; in a table that has been used it took 52, and a look-up 31, beside
43 for the call of an empty method written in Perl (F<bench/ops.pl>, capacity
10000).  The stores with 0 wrong answers keep the items themselves: see L</WHEN
TO USE WHAT>.

In the same way measured: two processes that add to one small filter without a
pause do together 0.95 of what one does alone, in batches 0.96; eight on two
cores 0.6 to 0.9, none of them below 0.7 of its share.  A reader beside a writer
of the very same items keeps 0.35 to 0.5 of its rate, as nearly each counter it
looks at has just been changed by the other processor; on other items of a larger
filter, 0.75 to 0.9.

An empty loop in Perl reads ten million short lines in 0.57 seconds; C<cbf
build> takes 1.5 times as long if all differ and 0.85 times if a tenth do, C<cbf
check> 0.6 to 1.2 times (F<bench/cli.pl>; two processes on two cores).

=head1 WHEN ONE MACHINE IS NOT ENOUGH

A filter is shared by the processes of one machine.  For more than one there
are three ways, and they go together.

=head2 One builds, all read

Build on one machine and send the file: C<save>, copy it beside the path where
it is served, C<verify>, rename, and every reader goes over to it with
C<refresh>.  F<eg/redis/> does that through a Redis server: the file goes up in
pieces, a version is named when all of it is there, and each host pulls it
once, for all of its processes.  A question never leaves the machine.

=head2 Split the input: parts, and one merge

Each machine reads its share of the input into a filter of its own, and one
machine merges what they send and publishes it.  F<eg/gearman/> does that
through a Gearman job server, with as many workers as there are: a worker that
is lost, a shard that comes twice and an image that was damaged are handled
there.

Parts can be merged only if they have one geometry, that of the whole.  So
I<P> machines need I<P> times the memory, and send I<P> times the bytes:

=for sample text

    mmap_size = 16768 + counters / 2
    sent      = P * mmap_size

For a hundred million items at 0.01, as
C<< Class->geometry(100_000_000, 0.01) >> tells, an image has 536,887,680 bytes, and eight of them 4,295,101,440.  Images of parts are
mostly zeros and shrink, by zlib at its fastest level, to about 21 % if a part
is one of eight and to 6 % if it is one of 64.

Merging goes through memory once and does not care how many items there are.
One core of a machine of 2026, with nothing else to do, took for one image:

=for sample text

    image       new_from_bytes   merge     SHA-256   save
     16 MiB     0.015 s          0.007 s   0.05 s    0.03 s
    128 MiB     0.10 s           0.08 s    0.44 s    0.2 s
    512 MiB     0.46 s           0.37 s    1.7 s     0.9 s

So the wire and the digest cost more than the merge.  Eight images of 512 MiB
are merged in about 3 seconds, are 43 seconds on a network of 100 MB a second
uncompressed and 9 seconds compressed.  If that is too long for one, merge in a
tree: the order does not matter.  What matters is that no part comes twice,
because a merge adds, and counts, and what C<remove> may later take away, are
wrong then.  C<contains> would not be.

Splitting the input brings speed where reading, parsing and hashing the input
is the work.  It does not make the filter smaller or quicker anywhere.

=head2 Split the items: shards, and no merge

A hash of the item says which of I<P> machines (or files, or processes) it
belongs to.  Each has a filter for its share only, planned for
S<capacity / P>.  For the hundred million and 16 shards that is 6,250,000 items
and 33,571,200 bytes each.  What it buys:

=over 4

=item *

Memory: all shards together are about as large as one filter, where parts are
I<P> times as large.

=item *

Nothing is merged and, if questions are asked where the shard is, nothing is
sent.  A shard is published, repaired and grown alone.

=item *

Writers: each shard has a lock of its own, so I<P> of them can change at once,
also on one machine.

=item *

Speed: a small table is nearer to the processor.  On the machine above, batches
ran into a table of 32 MiB at 5.5 million adds and 8.3 million questions a
second, and into one of 512 MiB at 2.6 and 3.7.

=back

What it costs: input must be sent to where its items belong, and so must each
question, or a batch of questions must be dealt out to all.  Changing I<P>
means to build again.  The error rate of an answer is that of the one shard it
comes from, so it does not add up.  Shares differ by about the square root of
their size: nothing to think of for millions, but plan a shard for a thousand
items a tenth larger.

Choose the shard by another hash than the filter's, which is XXH3 with 128 bits:
with the same one all items of a shard would agree in the bits that chose it, and
some of their counters would crowd in a part of the table.

    use Digest::MD5 ();
    my @shards = map { $class->new(undef, 100, 0.01) } 1 .. 16;
    sub shard_of { unpack('L', Digest::MD5::md5($_[0])) % @shards }

    my @deal;
    push @{ $deal[ shard_of($_) ] }, $_ for map { "item $_" } 1 .. 1000;
    $shards[$_]->add_many($deal[$_] // []) for 0 .. $#shards;
    print $shards[ shard_of('item 7') ]->contains('item 7'), "\n";    # 1

Split the input if reading it is what takes long and everybody must be able to
ask about everything.  Split the items if the filter is what is too large, or
what all wait for.  Both together are two independent steps: each shard may be
merged from parts.

=head1 THREADS

In a perl with threads, a filter that exists when a thread is created is cloned
into it.  Both handles share the mapping, and each is closed on its own:

=for sample needs threads

    use strict;
    use warnings;
    use threads;
    use Data::CountingBloomFilter::Shared;

    my $seen = Data::CountingBloomFilter::Shared->new(undef, 1000, 0.0001);
    $_->join for map {
        my $n = $_;
        threads->create(sub { $seen->add("thread-$n"); return });
    } 1 .. 3;
    print join(' ', map { $seen->contains("thread-$_") } 1 .. 4), "\n";

=for sample output

    1 1 1 0

Threads use the filter at the same time, as processes do.

=head1 SIGNALS

Perl runs the handlers of C<%SIG> between its own operations, so never inside of
a change.  A handler may use the filter.  A call that waits for the lock lets
handlers run.  If the handler returns, the call goes on waiting.  If it dies,
the call ends, and nothing was changed:

    my $done = eval {
        local $SIG{ALRM} = sub { die "took too long\n" };
        alarm 5;
        $filter->add($item);
        alarm 0;
        1;
    };
    alarm 0;
    warn $@ if !$done;

A batch or a scan of the whole table, once it has the lock, is not interrupted;
the handler runs when it is over.

Handlers that C<POSIX::sigaction> sets are another matter: unless told C<safe>,
they run at once, in the middle of whatever the process does.  One that dies
then jumps out of a change and leaves the lock locked by a living process, for
which all others wait; one that uses the filter may wait for itself.  Say
C<< $action->safe(1) >>, or keep to C<%SIG>.  The same goes for a C<longjmp> of
other libraries, and for a thread that is cancelled.

=head1 UPGRADING FROM 0.01 AND 0.02

=over 4

=item *

The file format is the same, version 2.  Files of 0.01 and 0.02 open here, also
those that killed processes have left, and those that are frozen.

=item *

First end all processes of the old release, then start those of the new one:
B<never both on the same file at the same time>.  The way back is the same.

=item *

All names, arguments and return values are as they were, and the words of error
messages, too.  Messages may be longer.

=item *

The first C<count> or C<stats> on an old file counts once through the table; it
is cheap from then on.

=item *

C<verify> returns C<undef> for files that an old release has frozen: they have
no checksum.  C<save> a copy to get one.

=item *

New are C<add_if_absent>, all methods on batches except C<add_many>,
C<estimated_fp_rate>, C<histogram>, C<geometry>, C<to_bytes>,
C<new_from_bytes>, C<save>, C<verify>, C<refresh>, C<reserve>, the hooks of
Storable and Sereal, and in C<stats> the keys C<items>, C<saturated>, C<estimated_fp_rate> and
C<recovered>.

=item *

Point reads no longer wait for writers.

=back

=head1 WHEN TO USE WHAT

=over 4

=item A Perl hash

Is exact, lists its keys, and holds values.  It belongs to one process, and
each key takes the bytes of the key and many more.  Use it while it fits and
one process is enough.  For exact answers in many processes, use a database.

=item A plain Bloom filter

Has one bit where this one has four, so it is a quarter of the size, and can be
tuned to any size.  It can't remove and can't count.  Use one if all you ever
do is add, and memory is what counts.  (Perl: L<Bloom::Filter>, in one
process.)

=item A cuckoo filter

Stores short fingerprints of the items, can remove, and takes less memory at
small rates.  An insert may move others around, and fails when the table is too
full; the same item fits in only a few times; and the rule about removing is
the same.  Use one if memory is short, the number of items is known, and one
process writes.

=item This one

When many processes ask and change at the same time, items go as well as come,
processes may be killed, and a wrong "yes" now and then can be lived with.

=back

=head1 DIAGNOSTICS

Messages read C<< CLASS->METHOD: REASON at FILE line N. >>  The words of the
reasons stay from release to release, so a program may look for them.  Where
the reason is one of the system's, C<$!> is set to it.

=head2 Arguments

=over 4

=item capacity must be a whole number of at least 1, not I<VALUE>

C<$capacity> is 0, negative, not a number, or missing.  Give the number of
items that you expect.

=item fp_rate must lie strictly between 0 and 1, not I<VALUE>

1 % is C<0.01>, not C<1>.

=item capacity I<VALUE>: too large: a filter has at most 2^38 counters

Plan for fewer items or a larger rate, or split the items over several filters.

=item mode must be a whole number from 0 to 07777, not I<VALUE>

Permissions are octal: C<0640> without quotes.

=item path is required

C<new_readonly>, C<save> and C<< CLASS->unlink >> need a path.

=item path is the empty string

Mostly a variable that was not set.  For an anonymous filter give C<undef>.

=item I<NAME> contains a NUL byte: I<VALUE>

No path and no label of a memfd can hold one.

=item Wide character in I<NAME>

The item, path, label or image has a character above 255.  Encode it, see
L</ITEMS>.

=item the items must come as an array reference, not I<VALUE>

Write C<< add_many(\@items) >> or C<< add_many([...]) >>.

=item bytes are required

C<new_from_bytes> got C<undef>.

=item not a file descriptor: I<VALUE>

C<new_from_fd> takes a number or an open file handle.

=item path is the object's own, it can't be given

To remove another file, call C<unlink> on the class.

=item can't merge I<VALUE>: not a Data::CountingBloomFilter::Shared object

=item can't merge a filter that is destroyed

C<merge> takes another filter that is open.

=item geometry mismatch: ...

The two filters have not the same number of counters and hashes, which the
message names.  Make both with the same capacity and rate.

=item not called on a class

A constructor was called as a function.  Write C<<
Data::CountingBloomFilter::Shared->new(...) >>.

=item not a Data::CountingBloomFilter::Shared object

A method was called on a class, or on something that only looks like a filter.

=item the filter is destroyed

C<DESTROY> was called on this object.

=item Usage: Data::CountingBloomFilter::Shared::I<METHOD>(...)

Arguments are missing, or there are too many.

=back

=head2 Frozen and read-only

=over 4

=item filter I<PATH> is frozen

It can't be changed any more.  C<< new_from_bytes($filter->to_bytes) >> gives a
copy that can.

=item filter I<PATH> is read-only

This handle was opened by C<new_readonly>, or has itself frozen the filter.

=item filter I<PATH> is already frozen

C<freeze>: another handle was faster.

=item file I<PATH> is frozen; open it with new_readonly

What C<new> and C<new_from_fd> say of a frozen filter.

=item file I<PATH> is not frozen; open it with new

What C<new_readonly> says of one that can still change.

=back

=head2 Files

=over 4

=item invalid counting Bloom filter file I<PATH>: I<FIELD>

It is no filter, or damaged, or of a machine with the other byte order;
I<FIELD> is the first thing that is wrong.  The file is untouched.  Check the
path; restore the file from a copy, or remove it and build it anew.

=item invalid counting Bloom filter file I<PATH>: too small

The same: it is shorter than any filter.  Mostly a copy that was cut off.

=item incomplete counting Bloom filter file I<PATH>; remove it and retry

The process that created it was killed in the middle.  There is nothing in it.

=item file I<PATH> is a symbolic link

Give the path of the file itself.

=item file I<PATH> is neither a regular file nor a memfd

It is a directory, a device, a FIFO or a socket.

=item file I<PATH> has no contents yet and belongs to another user

An empty file is made into a filter only by its owner.  Let the owner call
C<new> first, or remove the file.

=item file I<PATH> is still locked exclusively by another process after 30 s

Some program holds an exclusive flock on it: a backup, a script with
L<flock(1)>.  F</proc/locks> shows which.

=item file I<PATH> cannot be used on: its descriptor was closed

This process was forked and has closed all descriptors, and the file can't be
opened again by its name.  Open the filter after that, or keep its descriptor.

=item descriptor is not open for both reading and writing

C<new_from_fd> needs both.

=item I<CALL> failed for I<PATH>: I<REASON>

A system call failed.  Usual reasons: C<No such file or directory> (C<new>
makes the file, not its directory); C<Permission denied>;
C<No space left on device> (see L</DISK SPACE>); C<File too large>
(C<ulimit -f>, or the file system's own limit); C<Too many open files>
(C<ulimit -n>).

=back

=head2 Locks and memory

=over 4

=item filter I<PATH> is locked by another process, pid I<N>: waited 30 s
for it, and whether it still lives cannot be judged from here

The holder of the lock is in another PID namespace, and has made no progress
for 30 seconds.  Nothing was changed.  If it is dead, restart all processes
that have the filter open, or let one of its own container use the filter.  If
it is stopped, let it go on.  Then call again.  See L</GUARANTEES AND LIMITS>.

=item out of memory for I<WHAT>

=item no memory for I<N> items

=item no memory for I<N> bytes

The system or a limit (C<ulimit -v>) refuses memory: for the mapping, for a
copy of the counters (C<merge>, C<save>), for 16 bytes and more for each item
of a batch, or for the string of C<to_bytes>.  Use smaller batches, or more
memory.

=back

=head2 From Perl, the shell and the kernel

=over 4

=item Use of uninitialized value ...

A warning: an item was C<undef>.

=item Modification of a read-only value attempted

You changed a result of C<contains_many> or C<count_of_many> in place.  Copy
the list first.

=item Bus error

SIGBUS: the disk is full, or somebody has cut the file.  See L</DISK SPACE>.

=back

=head1 SEE ALSO

L<cbf>, the command: makes, fills, asks, ships and reports filters in files, for
the shell, cron and monitoring.

L<Data::CountingBloomFilter::Shared::Cookbook>: programs for what people use it
for.

In the distribution: F<README>; F<eg/>, programs to start from;
F<bench/README>, how to measure and to read the figures; F<DESIGN>, the protocols, byte
by byte and crash by crash.

L<Bloom::Filter>, a plain filter in pure Perl; L<Hash::SharedMem>, an exact map
in shared memory; L<flock(2)>, L<memfd_create(2)>, L<mmap(2)>.

=head1 AUTHOR

The Data::CountingBloomFilter::Shared maintainers.

=head1 LICENCE

Copyright the Data::CountingBloomFilter::Shared maintainers.

This is free software: you can redistribute it and modify it under the same
terms as Perl itself.

=cut
