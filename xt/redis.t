# eg/redis against a Redis server of our own: readers follow what is published,
# and go on with what they have whatever is published, damaged, lost or half
# done.  Needs the built module: prove -b xt/.
use strict;
use warnings;
use Digest::SHA ();
use File::Temp ();
use FindBin ();
use lib "$FindBin::Bin/lib";
use IO::Handle ();
use JSON::PP ();
use Test::More;
use Data::CountingBloomFilter::Shared;
use XTServer;
use XTTree;

plan skip_all => 'needs a Redis server (Debian: redis-server)'
    if !have('redis-server');
plan skip_all => "needs Redis' client (Debian: libredis-perl)"
    if !eval { require Redis; 1 };

watchdog(120);
my $CLASS  = 'Data::CountingBloomFilter::Shared';
my $dir    = File::Temp->newdir;
my $socket = "$dir/redis.sock";
my $port   = 0;
my @perl   = perl_here();
my ($server, $redis);

sub start_server {
    for (1 .. 5) {
        $port   = free_port();
        $server = start('redis-server', '--port', $port, '--bind', '127.0.0.1',
            '--unixsocket', $socket, '--save', '', '--appendonly', 'no',
            '--dir', "$dir");
        return $redis = Redis->new(sock => $socket) if until_true(10, sub {
            -S $socket && listening($port) || defined $server->ended(0)
        }) && !defined $server->ended(0);
    }
    BAIL_OUT('redis-server: ' . $server->out);
}

sub publish {
    my (@arguments) = @_;
    my $run = publishing(@arguments);
    return defined $run->ended(30) ? ($run->{status}, $run->out, $run->err) : -1;
}

sub publishing {
    my (@arguments) = @_;
    return start(@perl, root() . '/eg/redis/publish.pl', '--server', $socket,
        @arguments);
}

# Brings a path up to date, once.
sub pull {
    my ($path, @server) = @_;
    my $run = start(@perl, root() . '/eg/redis/reader.pl', '--server',
        @server ? @server : $socket, '--once', 'list', $path);
    return defined $run->ended(30) ? ($run->{status}, $run->err) : -1;
}

# A frozen file that holds these.
sub frozen {
    my ($name, $capacity, @items) = @_;
    my $f = $CLASS->new(undef, $capacity, 0.001);
    $f->add_many(\@items);
    $f->save("$dir/$name");
    return "$dir/$name";
}

sub current { return JSON::PP->new->decode($redis->get('list:current')) }

# A reader that serves; asked by lines.
{
    package Local::Reader;

    sub start {
        my ($class, $path) = @_;
        pipe my $in, my $ask or die "pipe: $!";
        $ask->autoflush;
        my @command = (@perl, main::root() . '/eg/redis/reader.pl', '--server',
            $socket, '--every', 0.05, 'list', $path);
        my $run = XTServer::start(sub {
            open STDIN, '<&', $in or die "stdin: $!";
            exec @command or die "exec: $!";
        });
        return bless { run => $run, ask => $ask, asked => 0 }, $class;
    }

    sub knows {
        my ($self, $item) = @_;
        print { $self->{ask} } "$item\n";
        my $n = $self->{asked}++;
        my @answers;
        XTServer::until_true(20, sub {
            @answers = $self->{run}->out =~ /(.*)\n/g;
            @answers > $n || defined $self->{run}->ended(0);
        });
        return $answers[$n] // '(no answer) ' . $self->{run}->err;
    }

    sub comes_to_know {
        my ($self, $item) = @_;
        return XTServer::until_true(20,
            sub { $self->knows($item) eq "1 $item" });
    }

    sub end {
        my ($self) = @_;
        close $self->{ask};
        return $self->{run}->ended(20);
    }
}

# ---- published and read ---------------------------------------------------

start_server();
my $path = "$dir/served.cbf";
my ($status, $said) = pull($path);
is($status, 1 << 8, 'nothing is published: exit 1');
like($said, qr/\Alist: nothing is published$/m, '... and it says so');
ok(!-e $path, '... and there is no file');

my $first = frozen('first', 20_000, 'in one', 'in both');
($status, my $out, $said) = publish('--chunk', 10_000, 'list', $first);
is("$status$said", 0, 'a file is published');
my $pieces = int((-s $first) / 10_000) + 1;
is($out, 'list: version 1, ' . (-s $first) . " bytes in $pieces pieces\n",
    '... with a report');
is($redis->hlen('list:1'), $pieces, '... in as many pieces');
is($redis->ttl('list:1'), -1, '... that stay');
($status, $said) = pull($path);
is("$status$said", 0, 'it is pulled');
is(slurp($path), slurp($first), '... the same bytes');
is((stat $path)[2] & 07777, 0644, '... for all of this host');
($status, $said) = pull("$dir/other.cbf", "127.0.0.1:$port");
is("$status$said", 0, '... by TCP as well');
is(slurp("$dir/other.cbf"), slurp($first), '... the same bytes');

my $mapped = $CLASS->new_readonly($path);
my $inode  = (stat $path)[1];
pull($path);
is((stat $path)[1], $inode, 'what a host has is not pulled again');

my $reader = Local::Reader->start($path);
is($reader->knows('in one'), '1 in one', 'a reader serves it');
is($reader->knows('in two'), '0 in two', '... and nothing else');
my $second = frozen('second', 90_000, 'in two', 'in both');
($status, $out, $said) = publish('list', $second);
is("$status$said", 0, 'another one is published');
ok($reader->comes_to_know('in two'), '... the reader goes over to it');
is($reader->knows('in one'), '0 in one', '... altogether');
is($mapped->refresh . $mapped->contains('in two'), '11',
    '... and so does another process of this host');
cmp_ok($redis->ttl('list:1'), '>', 500, 'the old version goes after a while');
is($redis->ttl('list:2'), -1, '... the new one stays');

# ---- half done, damaged, lost -----------------------------------------------

# What must leave everybody where they are.
sub nothing_changes {
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is($reader->knows('in two'), '1 in two', "$name: the reader goes on");
    is(slurp($path), slurp($second), '... with the file it had');
    ok(until_true(10, sub { !(() = glob "$dir/.pull-*") }),
        '... and nothing is left beside it');
    return;
}

{
    my $large = frozen('large', 1_500_000, 'in large');
    my $run   = publishing('--chunk', 200, 'list', $large);
    ok(until_true(20, sub { ($redis->hlen('list:3') || 0) > 10 }),
        'a publisher is in the middle of it');
    $run->send('KILL');
    is($run->ended(10), 9, '... and is killed');
    is(current()->{version}, 2, 'it published nothing');
    cmp_ok($redis->ttl('list:3'), '>', 0, '... and its pieces will go');
    nothing_changes('half a version');
}

# Puts a version in place as the publisher would, of these pieces; without those
# that are undefined.
sub by_hand {
    my ($version, $digest, @pieces) = @_;
    my $bytes = 0;
    for my $n (grep { defined $pieces[$_] } 0 .. $#pieces) {
        $redis->hset("list:$version", $n, $pieces[$n]);
        $bytes += length $pieces[$n];
    }
    $redis->set('list:current', JSON::PP->new->encode({ version => $version,
        bytes => $bytes, pieces => scalar @pieces, sha256 => $digest }));
    return;
}

my $before = $redis->get('list:current');
my $bytes  = slurp($first);
my $sha    = Digest::SHA::sha256_hex($bytes);
my @halves = (substr($bytes, 0, 20_000), substr $bytes, 20_000);
my $turned = $halves[1];
substr($turned, 5_000, 1) ^= "\x01";
my %damage = (
    'a bit turned around' => [qr/damaged on the way/, $sha, $halves[0], $turned],
    'a short piece'       => [qr/damaged on the way/, $sha, $halves[0],
        substr $halves[1], 1],
    'pieces exchanged'    => [qr/damaged on the way/, $sha, reverse @halves],
    'damaged before'      => [qr/damaged before/,
        Digest::SHA::sha256_hex($halves[0] . $turned), $halves[0], $turned],
    'no filter'           => [qr/invalid counting Bloom filter|too small/,
        Digest::SHA::sha256_hex('text'), 'text'],
);
my $number = 50;
for my $name (sort keys %damage) {
    my ($why, @version) = @{ $damage{$name} };
    by_hand($number++, @version);
    ($status, $said) = pull($path);
    is($status, 1 << 8, "$name: exit 1");
    like($said, $why, '... and it says why');
    nothing_changes($name);
}
by_hand($number, $sha, $halves[0], undef);
($status, $said) = pull($path);
is($status, 1 << 8, 'a piece that is lost: exit 1');
like($said, qr/piece 1 of version $number is missing/, '... and it says which');
nothing_changes('a lost piece');
$redis->set('list:current', 'no JSON');
($status, $said) = pull($path);
is($status, 1 << 8, 'nonsense in place of a version: exit 1');
nothing_changes('nonsense');
$redis->set('list:current', $before);

# ---- what is not published --------------------------------------------------

my $open = $CLASS->new("$dir/open.cbf", 100);
my %refused = (
    'a file in use'  => [qr/not frozen/, "$dir/open.cbf"],
    'a damaged file' => [qr/not what was saved/, "$dir/damaged"],
    'no file'        => [qr/No such file/, "$dir/none"],
);
open my $damaged, '>:raw', "$dir/damaged" or die "damaged: $!";
print {$damaged} $halves[0], $turned or die "damaged: $!";
close $damaged or die "damaged: $!";
for my $name (sort keys %refused) {
    my ($why, $file) = @{ $refused{$name} };
    ($status, undef, $said) = publish('list', $file);
    isnt($status, 0, "$name is not published");
    like($said, $why, '... and it says why');
}
is($redis->get('list:current'), $before, '... and nothing has changed');

# ---- several publishers -------------------------------------------------------

{
    my @runs = map {
        publishing('--chunk', 500, 'list',
            frozen("many-$_", 10_000 * $_, "in $_", 'in many'))
    } 1 .. 5;
    my (%done, @odd);
    for my $run (@runs) {
        $run->ended(30);
        if ($run->out =~ /version (\d+),/) { $done{$1} = 1 }
        elsif ($run->err !~ /version \d+ is newer/) { push @odd, $run->err }
    }
    is("@odd", '', 'five publishers at once: done, or late');
    my ($newest) = sort { $b <=> $a } keys %done;
    is(current()->{version}, $newest, '... and the newest is the current one');
    is($redis->ttl("list:$newest"), -1, '... which stays');
    my @stay = grep { $redis->ttl($_) == -1 } $redis->keys('list:[0-9]*');
    @stay = grep { !/:(?:1|2|5[0-9])\z/ } @stay;
    is("@stay", "list:$newest", '... it alone');
    ok($reader->comes_to_know('in many'), '... and the reader has it');
}

# ---- a server that goes ---------------------------------------------------------

$server->stop;
is($reader->knows('in many'), '1 in many', 'without Redis the reader goes on');
($status, $said) = pull($path);
is($status, 1 << 8, '... where pulling fails');
start_server();
is($reader->knows('in many'), '1 in many', 'with an empty one it goes on');
($status, undef, $said) = publish('list', $first);
is("$status$said", 0, 'what is published then');
ok($reader->comes_to_know('in one'), '... is what it goes over to');
is($reader->end, 0, 'at the end of its input the reader ends');

for my $program (qw(publish reader)) {
    my $run = start(@perl, root() . "/eg/redis/$program.pl");
    isnt($run->ended(20), 0, "$program: wrong arguments are refused");
    like($run->err, qr/\Ausage: /, '... with what it takes');
}
$server->stop;
done_testing;
