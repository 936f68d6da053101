# eg/gearman against a job server of our own: what the client publishes is what
# one process would have built, whatever happens to workers and answers.  Needs
# the built module: prove -b xt/.
use strict;
use warnings;
use Compress::Zlib ();
use Digest::SHA ();
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../t/lib";
use JSON::PP ();
use Test::More;
use CBFModel;
use Data::CountingBloomFilter::Shared;
use XTServer;
use XTTree;

plan skip_all => 'needs a job server (Debian: gearman-job-server)'
    if !have('gearmand') && !-x '/usr/sbin/gearmand';
plan skip_all => "needs Gearman's client (Debian: libgearman-client-perl)"
    if !eval { require Gearman::Client; require Gearman::Worker; 1 };

watchdog(120);
my $CLASS  = 'Data::CountingBloomFilter::Shared';
my $JSON   = JSON::PP->new->ascii->canonical;
my @PLAN   = (2000, 0.01);
my $dir    = File::Temp->newdir;
my $target = "$dir/served.cbf";
my $worker = root() . '/eg/gearman/worker.pl';
my @perl   = perl_here();
require $worker;    # for workers that go wrong at a chosen moment

# ---- a job server, and what the tests do with it ------------------------

my ($server, $port) = (undef, 0);
for (1 .. 5) {
    $port   = free_port();
    $server = start(have('gearmand') ? 'gearmand' : '/usr/sbin/gearmand',
        '-L', '127.0.0.1', '-p', $port, '-t', 1, '-l', 'stderr',
        '-P', "$dir/gearmand.pid", $> ? () : ('-u', scalar getpwuid 0));
    last if until_true(10, sub { listening($port) || defined $server->ended(0) })
        && !defined $server->ended(0);
}
ok(!defined $server->ended(0), "a job server on port $port")
    or BAIL_OUT('gearmand: ' . $server->err);

mkdir "$dir/shards" or die "mkdir: $!";
my (%lines_of, @shards);
for my $n (1 .. 5) {
    my $name = "part-$n";
    $lines_of{$name} = [map { "line $_ of $n" } 1 .. 100 * $n];
    push @{ $lines_of{$name} }, ('in all of them') x 2;
    shard($name, join "\n", @{ $lines_of{$name} }, '');
    push @shards, $name;
}

sub shard {
    my ($name, $text) = @_;
    open my $out, '>:raw', "$dir/shards/$name" or die "$name: $!";
    print {$out} $text;
    close $out or die "$name: $!";
    return $name;
}

sub worker { return start(@perl, $worker, '--server', "127.0.0.1:$port",
    "$dir/shards") }

sub client {
    my (@arguments) = @_;
    return start(@perl, root() . '/eg/gearman/client.pl',
        '--server', "127.0.0.1:$port", @arguments);
}

# A worker whose n-th answer is what $code makes of it.
sub odd_worker {
    my ($code) = @_;
    return start(sub {
        my ($w, $n) = (Gearman::Worker->new(
            job_servers => ["127.0.0.1:$port"]), 0);
        $w->register_function(cbf_partial => sub {
            $code->($n++, main::answer("$dir/shards", $_[0]->arg));
        });
        $w->work while 1;
    });
}

# How many jobs of ours the server has: waiting and at a worker, at a worker,
# and workers that could do them.
sub at_server {
    my $socket = IO::Socket::INET->new("127.0.0.1:$port") or return (0, 0, 0);
    print {$socket} "status\n";
    while (my $line = <$socket>) {
        return split /\t/, $1 if $line =~ /^cbf_partial\t(\d+\t\d+\t\d+)$/;
        last if $line =~ /^\.$/;
    }
    return (0, 0, 0);
}

# Whether what is published holds these shards once each, and nothing else.
sub published_is {
    my ($name, @names) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $model = CBFModel->new(@PLAN);
    $model->add_many($lines_of{$_}) for @names;
    my $reader = eval { $CLASS->new_readonly($target) }
        or return fail("$name: $@");
    is($reader->verify, 1, "$name: a whole file");
    is(CBFModel::parse_file(slurp($target))->{table}, $model->bytes,
        '... that holds each line as often as it was there');
    unlink $target;
    return;
}

sub ended_well {
    my ($client, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $status = $client->ended(40);
    return is($status, 0, $name) || diag($client->out, $client->err);
}

# ---- all is well -----------------------------------------------------------

{
    my @workers = map { worker() } 1 .. 2;
    my $client  = client($target, @PLAN, @shards);
    ended_well($client, 'two workers, five shards');
    like($client->out, qr/: 5 shards, 1510 lines, about 1[45]\d\d different,/,
        '... the report');
    is($client->err, '', '... without complaints');
    is((stat $target)[2] & 07777, 0644, '... for all to read');
    published_is('the whole', @shards);

    # Odd shapes of input, and of names.
    my %odd = (
        'empty'         => '',
        'no last end'   => "one\ntwo",
        'empty lines'   => "\n\n\nx\n",
        'bytes'         => join("\n", map { chr } 0 .. 9, 11 .. 255) . "\n",
        "name \xe9\xff" => "of bytes\n",
        'long'          => join("\n", map { "$_ " . 'l' x 3000 } 1 .. 900) . "\n",
    );
    for my $name (keys %odd) {
        shard($name, $odd{$name});
        $lines_of{$name} = [split /\n/, $odd{$name}];
    }
    $client = client('--batch', 2, $target, @PLAN, sort keys %odd);
    ended_well($client, 'input of odd shapes');
    published_is('it', keys %odd);

    # Each once, under whatever name.
    shard('twin', join "\n", @{ $lines_of{'part-1'} }, '');
    $client = client($target, @PLAN, @shards, 'part-2', 'twin', 'part-2');
    ended_well($client, 'repeated shards');
    like($client->err, qr/^part-2: named more than once, taken once$/m,
        '... one that is named again');
    like($client->err, qr/^(?:twin|part-1): the same bytes as .*, taken once$/m,
        '... one of another name');
    published_is('it', @shards);

    # What is not there, and what must not be read.
    shard('../outside', "secret\n");
    $client = client('--tries', 2, $target, @PLAN, 'part-1', 'no-such',
        '../outside', "$dir/outside");
    is($client->ended(40), 1 << 8, 'shards that are not there: exit 1');
    like($client->err, qr/^no-such: refused: the worker says: no-such: No such/m,
        '... one that does not exist');
    like($client->err, qr/^\Q$_\E: refused: .*not a name below the root$/m,
        '... one outside') for '../outside', "$dir/outside";
    like($client->err, qr/^nothing is published, .*: no-such /m,
        '... and it says which are missing');
    ok(!-e $target, '... and nothing is published');
    $_->stop for @workers;
}

# ---- lost workers ------------------------------------------------------

{
    # Killed by itself, with the answer made and not sent.
    my $lost   = odd_worker(sub { kill 'KILL', $$ });
    my $client = client($target, @PLAN, @shards);
    is($lost->ended(30), 9, 'a worker is killed at its first job');
    my $next = worker();
    ended_well($client, '... another one does all of them');
    published_is('the whole', @shards);
    $next->stop;

    # Stopped: nobody is told, so the client runs out of patience and asks
    # again.  Then the worker goes on: its late answer counts for nothing, and
    # what it does after that is as good as another's.
    $lost   = odd_worker(sub { kill 'STOP', $$ if !$_[0]; return $_[1] });
    $client = client('--timeout', 2, $target, @PLAN, @shards);
    ok(until_true(30, sub { (at_server())[1] == 1 }), 'a worker has a job');
    ok(until_true(30, sub { $client->err =~ /timeout/ }),
        '... it stands still until the time that was given is over');
    $next = worker();
    $lost->send('CONT');
    ended_well($client, '... and then the rest is done');
    published_is('the whole', @shards);
    $_->stop for $lost, $next;

    # Nobody there, and no job server either.
    ok(until_true(10, sub { !(at_server())[2] }), 'no worker is left');
    $client = client('--timeout', 1, '--tries', 2, $target, @PLAN, 'part-1');
    is($client->ended(40), 1 << 8, 'without workers: exit 1');
    ok(!-e $target, '... and nothing is published');
    my $none = free_port();
    $client = start(@perl, root() . '/eg/gearman/client.pl', '--tries', 1,
        '--server', "127.0.0.1:$none", $target, @PLAN, 'part-1');
    is($client->ended(40), 1 << 8, 'without a job server: exit 1');
    ok(!-e $target, '... and nothing is published');
}

# ---- damaged answers -----------------------------------------------------

sub with_head {
    my ($answer, %change) = @_;
    my ($head, $image) = $answer =~ /\A(.*?)\n(.*)\z/s;
    return $JSON->encode({ %{ $JSON->decode($head) }, %change }) . "\n$image";
}

sub with_image {
    my ($image) = map { Compress::Zlib::compress($_) } @_;
    return $JSON->encode({ shard => 'part-1', lines => 102, input => '0' x 64,
        image => Digest::SHA::sha256_hex($image) }) . "\n$image";
}
my $other = $CLASS->new(undef, 9, 0.1);
$other->add_many([1 .. 102]);
my $fewer = $CLASS->new(undef, @PLAN);
$fewer->add('one');
my %damage = (
    'a bit turned around' => [qr/damaged on the way/,
        sub { substr($_[0], -100, 1) ^= "\x10"; $_[0] }],
    'the end lost'     => [qr/damaged on the way/, sub { substr $_[0], 0, -1 }],
    'no head'          => [qr/no answer/, sub { 'x' x 100 }],
    'a bad head'       => [qr/refused/, sub { "{\n" }],
    'another shard'    => [qr/another shard/,
        sub { with_head($_[0], shard => 'part-2') }],
    'no digest'        => [qr/no digest/, sub { with_head($_[0], input => 1) }],
    'no filter'        => [qr/invalid counting Bloom|too small/,
        sub { with_image('no filter') }],
    'not compressed'   => [qr/can't be unpacked/, sub {
        my ($head) = $_[0] =~ /\A(.*)\n/;
        with_head("$head\nx", image => Digest::SHA::sha256_hex('x'));
    }],
    'other geometry'   => [qr/another geometry/,
        sub { with_image($other->to_bytes) }],
    'items lost'       => [qr/does not hold 102 lines/,
        sub { with_image($fewer->to_bytes) }],
);
{
    my @cases = sort keys %damage;
    my $odd   = odd_worker(sub {
        my ($n, $answer) = @_;
        return $n < @cases ? $damage{ $cases[$n] }[1]->($answer) : $answer;
    });
    my $client = client('--tries', @cases + 1, $target, @PLAN, 'part-1');
    ended_well($client, 'damaged answers, then a good one');
    my @said = grep { /\Apart-1: refused/ } split /^/, $client->err;
    is(scalar @said, scalar @cases, '... each of them is refused');
    like($said[$_] // '', $damage{ $cases[$_] }[0], "... $cases[$_]")
        for 0 .. $#cases;
    published_is('the good one', 'part-1');
    $odd->stop;

    # None but damaged ones: what was published before stays.
    $odd = odd_worker(sub { substr $_[1], 0, -1 });
    $fewer->save($target);
    my $before = slurp($target);
    $client = client('--tries', 2, $target, @PLAN, 'part-1');
    is($client->ended(40), 1 << 8, 'only damaged answers: exit 1');
    is(slurp($target), $before, '... and what was there before stays');
    $odd->stop;
}

# ---- wrong use -------------------------------------------------------------

for my $program ($worker, root() . '/eg/gearman/client.pl') {
    my $run = start(@perl, $program);
    isnt($run->ended(20), 0, 'wrong arguments are refused');
    like($run->err, qr/\Ausage: /, '... with what it takes');
}
my $large = client($target, 1e9, 0.001, 'part-1');
isnt($large->ended(20), 0, 'an image of gigabytes is refused');
like($large->err, qr/too many/, '... with the reason');

$server->stop;
done_testing;
