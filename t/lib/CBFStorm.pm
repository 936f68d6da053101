package CBFStorm;
# What a table may look like after its writer was killed: the state after some
# number of finished steps of a known sequence, no fewer than the writer has
# said it finished.  Steps are worked out with CBFModel, never with the module.
# Knows nothing of processes: that is CBFProc's.
use strict;
use warnings;
use Exporter 'import';
use Fcntl ();

our @EXPORT = qw(add_steps remove_steps steps_to nibbles progress_on said_done
    say_done);

# A step is one item's transaction: [1 or -1, its positions].
sub add_steps {
    my ($model, @item) = @_;
    return map { [1, [$model->positions($_)]] } @item;
}

sub remove_steps {
    my ($model, @item) = @_;
    return map { [-1, [$model->positions($_)]] } @item;
}

# The counters in packed bytes.
sub nibbles { return map { ($_ & 15, $_ >> 4) } unpack 'C*', $_[0] }

# How many of the steps lead from the model's counters to the given table: the
# least number, 0 included; -1 if none does.  Ends with the model there.
# Removals are of what is present, and no counter reaches 15.
sub steps_to {
    my ($model, $table, @step) = @_;
    my $c = $model->{counter};
    my @is = nibbles($table);
    my $off = grep { $c->[$_] != $is[$_] } 0 .. $#is;
    my $n = 0;
    while ($off) {
        return -1 if $n == @step;
        my ($by, $at) = @{ $step[$n++] };
        for my $i (@$at) {
            $off-- if $c->[$i] != $is[$i];
            $c->[$i] += $by;
            die "the model left 0..14 at $i" if $c->[$i] < 0 || $c->[$i] > 14;
            $off++ if $c->[$i] != $is[$i];
        }
    }
    return $n;
}

# ---- what a process says it has done: a number in a file, which outlives it --

sub progress_on {
    my ($path) = @_;
    open my $fh, '+>:raw', $path or die "$path: $!";
    say_done($fh, 0);
    return $fh;
}

# Each side needs a handle of its own: see reopen.
sub reopen {
    my ($path) = @_;
    open my $fh, '+<:raw', $path or die "$path: $!";
    return $fh;
}

sub say_done {
    my ($fh, $n) = @_;
    sysseek $fh, 0, Fcntl::SEEK_SET() or die "seek: $!";
    my $put = syswrite $fh, pack 'Q', $n;
    die "progress: $!" unless $put && $put == 8;
    return;
}

sub said_done {
    my ($path) = @_;
    my $fh = reopen($path);
    my $got = sysread($fh, my $bytes, 8);
    die "progress: $!" unless $got && $got == 8;
    return unpack 'Q', $bytes;
}

1;
