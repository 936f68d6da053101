# Handles across fork: whatever a child does with the handle it inherited, and
# however it ends, the parent's is as before; generations of children; daemons
# that close every descriptor; descriptor numbers that went to other files.
use strict;
use warnings;
use Test::More;
use File::Temp ();
use FindBin;
use POSIX ();
use lib "$FindBin::Bin/lib";
use CBFModel;
use CBFProc;
use Data::CountingBloomFilter::Shared;

my $CLASS = 'Data::CountingBloomFilter::Shared';
my @PLAN  = (2000, 0.001);
watchdog(60);

my $dir  = File::Temp->newdir;
my $path = "$dir/fork.cbf";
my %make = (
    anonymous => sub { $CLASS->new(undef, @PLAN) },
    file      => sub { $CLASS->new($path, @PLAN) },
    memfd     => sub { $CLASS->new_memfd('fork', @PLAN) },
);

sub table { substr $_[0]->to_bytes, $CBFProc::AT{table} }

# Numbers of this process's descriptors that lead to the file.
sub fds_on {
    my ($what) = @_;
    opendir my $d, '/proc/self/fd' or die $!;
    return grep { /\A\d+\z/
        && (readlink("/proc/self/fd/$_") || '') =~ /\Q$what\E/ } readdir $d;
}

# A raw child: nothing of CBFProc is needed in it.  Its exit code.
sub child {
    my ($code, $meanwhile) = @_;
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        alarm 20;
        open STDERR, '>', '/dev/null';
        $code->();
        exit 0;
    }
    $meanwhile->() if $meanwhile;
    waitpid $pid, 0;
    return $? & 127 ? "signal $?" : $? >> 8;
}

my %ending = (
    'exit'              => sub { exit 3 },
    '_exit'             => sub { POSIX::_exit(3) },
    'undef'             => sub { undef $_[0]; exit 3 },
    'DESTROY by hand'   => sub { $_[0]->DESTROY; exit 3 },
    'DESTROY and undef' => sub { $_[0]->DESTROY; undef $_[0]; exit 3 },
    'die'               => sub { $! = 3; die "on purpose\n" },
    'exec'              => sub { exec $^X, '-e', 'exit 3' },
    'a grandchild'      => sub {
        my ($f) = @_;
        exit(child(sub { $f->add('grandchild'); undef $f; exit 3 }));
    },
);

for my $kind (sort keys %make) {
    unlink $path;
    my $f = $make{$kind}->();
    my $model = CBFModel->new(@PLAN);
    $_->add('parent') for $f, $model;
    for my $how (sort keys %ending) {
        my $got = child(sub {
            $f->add("child, $how");
            $f->stats;
            $ending{$how}->($f);
        });
        is($got, 3, "$kind, $how: the child ended as it meant to");
        $model->add("child, $how");
        $model->add('grandchild') if $how eq 'a grandchild';
        is($f->add("parent, $how"), $model->add("parent, $how"),
            "$kind, $how: the parent can add");
        is($f->stats->{items}, $model->stats->{items},
            "$kind, $how: nothing is missing");
    }
    ok(table($f) eq $model->bytes, "$kind: the table is the model's");
    ok(-e $path, "$kind: the file is still there") if $kind eq 'file';
    is($f->stats->{recovered}, 0, "$kind: nobody's work was taken over");
}

# Five generations, each using the filter before and after its child.
for my $kind (sort keys %make) {
    unlink $path;
    my $f = $make{$kind}->();
    my $model = CBFModel->new(@PLAN);
    my $descend;
    $descend = sub {
        my ($generation) = @_;
        $f->add("before-$generation");
        $f->stats->{items} > 0 or exit 50;
        if ($generation < 5) {
            my $got = child(sub { $descend->($generation + 1) });
            exit $got if $got;
        }
        $f->contains("before-$_") or exit 60 + $_ for 1 .. $generation;
        $f->add("after-$generation");
        exit 0;
    };
    is(child(sub { $descend->(1) }), 0, "$kind: five generations");
    $model->add("before-$_"), $model->add("after-$_") for 1 .. 5;
    ok(table($f) eq $model->bytes, "$kind: all of them were counted");
}

# The parent's handle goes first.
for my $kind (qw(file memfd)) {
    unlink $path;
    my $f = $make{$kind}->();
    my $keep = $kind eq 'memfd' ? $CLASS->new_from_fd($f->memfd) : undef;
    my $gate = gate();
    my $c = spawn(sub {
        $gate->wait;
        $f->add("item-$_") for 1 .. 100;
        return $f->stats->{items};
    });
    undef $f;
    $gate->open;
    is(outcome($c->result(10)), 'returned 100', "$kind: outlives the parent's");
    my $g = $keep || $CLASS->new($path, @PLAN);
    is($g->stats->{items}, 100, "$kind: ... and what it added is there");
    undef $g;
    undef $keep;
}

# A daemon closes everything from 3 up and goes on; the parent's handle is gone,
# others open and close the file meanwhile, each thinking it might be alone.
{
    unlink $path;
    my $f = $CLASS->new($path, @PLAN);
    my $model = CBFModel->new(@PLAN);
    my @work = map { ("work-$_") x 2 } 1 .. 1500;    # long under the lock
    my $c = spawn(sub {
        return child(sub {
            POSIX::setsid();
            POSIX::close($_) for 3 .. 255;
            $f->add("daemon-$_") for 1 .. 100;
            for my $n (1 .. 200) {
                $f->add_many(\@work) or exit 4;
                $f->stats->{items} >= 100 + @work or exit 5;
                $f->remove_many(\@work) == @work or exit 6;
            }
            $f->contains("daemon-$_") or exit 7 for 1 .. 100;
            exit 0;
        }, sub { undef $f });    # no relative of it keeps a descriptor
    });
    undef $f;
    my $opened = 0;
    until ($c->told) {
        my $g = $CLASS->new($path, @PLAN);
        $g->add('visitor');
        $g->remove('visitor');
        $opened++;
    }
    is(outcome($c->result(20)), 'returned 0', 'a daemon without descriptors');
    cmp_ok($opened, '>', 3, "the file was opened by others ($opened times)");
    $model->add("daemon-$_") for 1 .. 100;
    ok(table_of($path) eq $model->bytes, 'and nothing was lost or added');
}

# A number of ours that somebody closed and another file got.
for my $case (['file', sub { (fds_on('fork.cbf'))[0] }],
              ['memfd', sub { $_[0]->memfd }]) {
    my ($kind, $number) = @$case;
    for my $forked (0, 1) {
        unlink $path;
        my $f = $make{$kind}->();
        $f->add('x');
        my $code = sub {
            my $fd = $number->($f);
            return 'no descriptor' unless defined $fd;
            my $other = File::Temp->new;
            POSIX::close($fd) or return 'close failed';
            POSIX::dup2(fileno $other, $fd) or return 'dup2 failed';
            $f->add('y');
            my $found = $f->contains('x') + $f->contains('y');
            undef $f;
            my $same = -e "/proc/self/fd/$fd"
                && (stat _)[1] == (stat $other)[1];
            POSIX::close($fd);
            return "found $found, " . ($same ? 'kept' : 'closed');
        };
        is($forked ? in_time(10, $code)->{list}[0] : $code->(), 'found 2, kept',
            "$kind: a descriptor that is another file's by now is not closed"
            . ($forked ? ' by a child' : ''));
    }
}

# Nothing of ours is left open in a program that a child runs.
{
    unlink $path;
    my @f = (map({ $make{$_}->() } qw(file memfd)));
    push @f, $CLASS->new_from_fd($f[1]->memfd);
    my $list = qx{ls -l /proc/self/fd};
    unlike($list, qr/fork/, 'descriptors are closed on exec');
}

done_testing;
