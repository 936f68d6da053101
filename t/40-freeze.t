# freeze: what it does to the handle that asks, to other handles and processes,
# to every kind of filter, and what is refused from then on.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use POSIX ();
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;
use CBFModel;
use Data::CountingBloomFilter::Shared;

watchdog;

my $dir = File::Temp->newdir;
my @geometry = (500, 0.01);
my $model = CBFModel->new(@geometry);
$model->add_many([map { "item $_" } 1 .. 300]);
$model->add_many([('often') x 17]);
my @items = ((map { "item $_" } 1 .. 300), 'often', map { "other $_" } 1 .. 50);

sub filled {
    my ($f) = @_;
    $f->add_many([map { "item $_" } 1 .. 300]);
    $f->add_many([('often') x 17]);
    return $f;
}

# Every call that would change a filter.
my %mutator = (
    add                => sub { $_[0]->add('new') },
    'add (present)'    => sub { $_[0]->add('item 1') },
    add_many           => sub { $_[0]->add_many(['new', 'item 1']) },
    'add_many (empty)' => sub { $_[0]->add_many([]) },
    _add_text          => sub { $_[0]->_add_text("new\n", "\n") },
    remove             => sub { $_[0]->remove('item 1') },
    'remove (absent)'  => sub { $_[0]->remove('never') },
    remove_many        => sub { $_[0]->remove_many(['item 1']) },
    'remove_many (empty)' => sub { $_[0]->remove_many([]) },
    add_if_absent      => sub { $_[0]->add_if_absent('new') },
    'add_if_absent (present)' => sub { $_[0]->add_if_absent('item 1') },
    add_if_absent_many => sub { my @got = $_[0]->add_if_absent_many(['new']) },
    'add_if_absent_many (empty)' => sub { $_[0]->add_if_absent_many([]) },
    clear              => sub { $_[0]->clear },
    merge              => sub { $_[0]->merge($CLASS->new(undef, @geometry)) },
    'merge (itself)'   => sub { $_[0]->merge($_[0]) },
);

sub refuses_changes {
    my ($f, $label) = @_;
    for my $call (sort keys %mutator) {
        my ($method) = $call =~ /\A(\w+)/;
        croaks($method, qr/frozen|read-only/, sub { $mutator{$call}->($f) },
            "$label: $call");
    }
}

sub answers_all {
    my ($f, $label, $readonly) = @_;
    my @want = map { $model->count_of($_) } @items;
    my @yes  = grep { $model->contains($_) } @items;
    is(join(' ', map { $f->count_of($_) } @items), "@want", "$label: count_of");
    is(join(' ', map { $f->contains($_) } @items),
        join(' ', map { $_ ? 1 : 0 } @want), '... contains');
    is(join(' ', $f->count_of_many(\@items)), "@want", '... count_of_many');
    is(scalar $f->contains_many(\@items), scalar @yes, '... contains_many');
    is(join('|', $f->present(\@items)), join('|', @yes), '... present');
    is(scalar $f->absent(\@items), @items - @yes, '... absent');
    is("@{ $f->histogram }", "@{ $model->histogram }", '... histogram');
    stats_are($f, $model, '... stats', frozen => 1, readonly => $readonly);
    is($f->frozen . $f->readonly, "1$readonly", '... frozen and readonly');
    is($f->count, $model->count, '... count');
    is($f->verify, 1, '... verify');
    is(error_of(sub { $f->sync }), undef, '... sync');
    table_is($CLASS->new_from_bytes($f->to_bytes), $model, '... to_bytes');
}

# ---- each kind of filter, and a second handle of it --------------------

my $n = 0;
my %kind = (
    file => sub {
        my $path = "$dir/" . ++$n;
        map { $CLASS->new($path, @geometry) } 1, 2;
    },
    memfd => sub {
        my $f = $CLASS->new_memfd('freeze', @geometry);
        ($f, $CLASS->new_from_fd($f->memfd));
    },
    descriptor => sub {
        my $f = $CLASS->new_memfd('freeze', @geometry);
        ($CLASS->new_from_fd($f->memfd), $f);
    },
    anonymous => sub { $CLASS->new(undef, @geometry) },
    image     => sub {
        $CLASS->new_from_bytes($CLASS->new(undef, @geometry)->to_bytes);
    },
);
for my $kind (sort keys %kind) {
    my ($f, $second) = $kind{$kind}->();
    filled($f);
    my ($path, $fd) = ($f->path, $f->memfd);
    is($f->frozen . $f->readonly, '00', "$kind: an ordinary filter");
    my @got = $f->freeze;
    ok(!@got || !defined $got[0] || "@got" eq '1', "$kind: freeze") or diag "@got";
    is($f->memfd, $fd, '... keeps the descriptor');
    is($f->path, $path, '... and the path');
    answers_all($f, "$kind, the handle that froze", 1);
    refuses_changes($f, "$kind, the handle that froze");
    croaks('freeze', qr/read-only/, sub { $f->freeze },
        "$kind: a second freeze on it");
    if ($second) {
        answers_all($second, "$kind, another handle", 0);
        refuses_changes($second, "$kind, another handle");
        croaks('freeze', qr/already frozen/, sub { $second->freeze },
            "$kind: freeze on another handle");
        is($second->readonly, 0, '... which is not made read-only by that');
    }
    is($f->stats->{ops}, 2, "$kind: nothing of all this was an operation");
}

# ---- other processes ---------------------------------------------------

# A child that holds the filter before the freeze is told; it waits at a gate.
for my $kind (qw(anonymous file memfd)) {
    my ($f, $second) = $kind{$kind}->();
    filled($f);
    pipe my $gate_rd, my $gate_wr or die $!;
    pipe my $said_rd, my $said_wr or die $!;
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        alarm limit(20);
        close $_ for $gate_wr, $said_rd;
        my @said = ($f->frozen, $f->readonly);
        syswrite $said_wr, "ready\n";
        sysread $gate_rd, my $nothing, 1;
        push @said, $f->frozen, $f->contains('item 1'), $f->count_of('often');
        for my $call (sort keys %mutator) {
            my $error = error_of(sub { $mutator{$call}->($f) });
            push @said, defined $error && $error =~ /frozen/ ? 'no' : $call;
        }
        my $error = error_of(sub { $f->freeze });
        push @said, defined $error && $error =~ /already frozen/ ? 'no' : 'freeze';
        syswrite $said_wr, join(' ', @said) . "\n";
        POSIX::_exit(0);
    }
    close $_ for $gate_rd, $said_wr;
    is(<$said_rd>, "ready\n", "$kind: a child has the filter");
    my $freezer = fork;
    die "fork: $!" unless defined $freezer;
    if (!$freezer) {
        close $gate_wr;
        POSIX::_exit(defined error_of(sub { $f->freeze }) ? 1 : 0);
    }
    waitpid $freezer, 0;
    is($?, 0, "$kind: frozen by a child");
    is($f->frozen . $f->readonly, '10', '... the parent sees it');
    close $gate_wr;
    my $said = <$said_rd>;
    waitpid $pid, 0;
    is($said, join(' ', 0, 0, 1, 1, 15, ('no') x (1 + keys %mutator)) . "\n",
        '... and so does a sibling that held it before');
    answers_all($f, "$kind, after that", 0);
    refuses_changes($f, "$kind, after that");
}

# An empty filter can be frozen, too.
{
    my $f = $CLASS->new("$dir/empty", @geometry);
    $f->freeze;
    undef $f;
    my $ro = $CLASS->new_readonly("$dir/empty");
    is($ro->count . $ro->contains('x') . $ro->verify, '001', 'an empty one');
}

done_testing;
