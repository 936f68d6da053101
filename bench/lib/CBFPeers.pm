package CBFPeers;
# What a user would pick instead of the module, each behind the same few
# methods, and the module itself.  Every peer is used as its manual says and
# without waiting for a disk, as the module does not wait for one either.
# Measures nothing.
#
#   needs          modules to load; it dies if the peer is not there
#   new(dir, n)    an empty store in the directory, for n items
#   join, leave    opens the store again in this process, lets go of it
#   shared         false: the store is one process's own
#   forgets        true: it may drop what it was given
#   add, has       one call an item; has returns how many are there
#   add_batch, has_batch   the same in one call or transaction for all; a peer
#                  that has no such thing has no such method
#   bytes          what the store takes; undef: memory of the process
#   end            the last of it
use strict;
use warnings;

# In the order of the table.
sub all {
    return map { "CBFPeers::$_" }
        qw(Module Hash BloomFilter SharedMem LMDB FastMmap BerkeleyDB DB_File
        Redis);
}

sub new {
    my ($class, $dir, $n) = @_;
    my $self = bless { dir => $dir, n => $n }, $class;
    $self->create;
    return $self;
}

sub create { $_[0]->join; return }
sub join   { return }
sub leave  { delete $_[0]{store}; return }
sub end    { $_[0]->leave; return }
sub shared { return 1 }
sub forgets { return 0 }

# All blocks that the files of the store take.
sub bytes {
    my ($self) = @_;
    my $bytes = 0;
    for my $file (glob "$self->{dir}/*") {
        $bytes += 512 * (stat $file)[12];
    }
    return $bytes;
}

{
    package CBFPeers::Module;
    our @ISA = 'CBFPeers';
    sub label { return 'this module' }
    sub needs { require Data::CountingBloomFilter::Shared; return }

    sub join {
        my ($self) = @_;
        $self->{store} = Data::CountingBloomFilter::Shared->new(
            "$self->{dir}/filter", $self->{n}, 0.01);
        return;
    }

    sub add {
        my ($self, $keys) = @_;
        my $f = $self->{store};
        for my $key (@$keys) { $f->add($key) }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($f, $n) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if $f->contains($key) }
        return $n;
    }
    sub add_batch { $_[0]{store}->add_many($_[1]); return }
    sub has_batch { return scalar $_[0]{store}->contains_many($_[1]) }
}

{
    package CBFPeers::Hash;
    our @ISA = 'CBFPeers';
    sub label  { return 'Perl hash' }
    sub needs  { return }
    sub shared { return 0 }
    sub bytes  { return undef }
    sub create { $_[0]{store} = {}; return }

    sub add {
        my ($self, $keys) = @_;
        my $hash = $self->{store};
        for my $key (@$keys) { $hash->{$key} = undef }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($hash, $n) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if exists $hash->{$key} }
        return $n;
    }
    sub add_batch { @{ $_[0]{store} }{ @{ $_[1] } } = (); return }

    sub has_batch {
        my ($self, $keys) = @_;
        my $hash = $self->{store};
        return scalar grep { exists $hash->{$_} } @$keys;
    }
}

{
    package CBFPeers::BloomFilter;
    our @ISA = 'CBFPeers';
    sub label  { return 'Bloom::Filter' }
    sub needs  { require Bloom::Filter; return }
    sub shared { return 0 }
    sub bytes  { return undef }

    sub create {
        my ($self) = @_;
        $self->{store} = Bloom::Filter->new(capacity => $self->{n},
            error_rate => 0.01);
        return;
    }

    sub add {
        my ($self, $keys) = @_;
        my $f = $self->{store};
        for my $key (@$keys) { $f->add($key) }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($f, $n) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if $f->check($key) }
        return $n;
    }
    sub add_batch { $_[0]{store}->add(@{ $_[1] }); return }

    sub has_batch {
        my ($self, $keys) = @_;
        return scalar grep { $_ } $self->{store}->check(@$keys);
    }
}

{
    package CBFPeers::SharedMem;
    our @ISA = 'CBFPeers';
    sub label { return 'Hash::SharedMem' }
    sub needs { require Hash::SharedMem; return }

    sub join {
        my ($self) = @_;
        $self->{store} =
            Hash::SharedMem::shash_open("$self->{dir}/shash", 'rwc');
        return;
    }

    sub bytes {
        my ($self) = @_;
        local $self->{dir} = "$self->{dir}/shash";
        return $self->SUPER::bytes;
    }

    sub add {
        my ($self, $keys) = @_;
        my $hash = $self->{store};
        for my $key (@$keys) { Hash::SharedMem::shash_set($hash, $key, '') }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($hash, $n) = ($self->{store}, 0);
        for my $key (@$keys) {
            $n++ if Hash::SharedMem::shash_exists($hash, $key);
        }
        return $n;
    }
}

# A transaction an item, as in a process that answers one question at a time.
{
    package CBFPeers::LMDB;
    our @ISA = 'CBFPeers';
    sub label { return 'LMDB_File' }
    sub needs { require LMDB_File; return }

    sub join {
        my ($self) = @_;
        $self->{store} = LMDB::Env->new($self->{dir}, {
            mapsize => 1 << 30,
            flags   => LMDB_File::MDB_NOSYNC() | LMDB_File::MDB_WRITEMAP(),
        });
        return;
    }

    sub add {
        my ($self, $keys) = @_;
        for my $key (@$keys) { $self->add_batch([$key]) }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my $n = 0;
        for my $key (@$keys) { $n += $self->has_batch([$key]) }
        return $n;
    }

    sub add_batch {
        my ($self, $keys) = @_;
        my $txn = $self->{store}->BeginTxn;
        my $db = $txn->OpenDB({ flags => LMDB_File::MDB_CREATE() });
        for my $key (@$keys) { $db->put($key, '') }
        $txn->commit;
        return;
    }

    sub has_batch {
        my ($self, $keys) = @_;
        my $txn = $self->{store}->BeginTxn(LMDB_File::MDB_RDONLY());
        my $db = $txn->OpenDB;
        my $n = 0;
        for my $key (@$keys) { $n++ if defined $db->get($key) }
        $txn->abort;
        return $n;
    }
}

# A cache: what it has no room for it forgets, so it gets room enough.
{
    package CBFPeers::FastMmap;
    our @ISA = 'CBFPeers';
    sub label { return 'Cache::FastMmap' }
    sub needs { require Cache::FastMmap; return }
    sub forgets { return 1 }

    sub create { $_[0]->open(1); return }
    sub join   { $_[0]->open(0); return }

    sub open {
        my ($self, $init) = @_;
        $self->{store} = Cache::FastMmap->new(
            share_file => "$self->{dir}/cache", init_file => $init,
            serializer => '', unlink_on_exit => 0, expire_time => 0,
            page_size => '256k', num_pages => 2 * int($self->{n} / 4000) + 3,
        );
        return;
    }

    sub add {
        my ($self, $keys) = @_;
        my $cache = $self->{store};
        for my $key (@$keys) { $cache->set($key, '') }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($cache, $n) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if defined $cache->get($key) }
        return $n;
    }
}

{
    package CBFPeers::BerkeleyDB;
    our @ISA = 'CBFPeers';
    sub label { return 'BerkeleyDB' }
    sub needs { require BerkeleyDB; return }

    sub join {
        my ($self) = @_;
        my $env = BerkeleyDB::Env->new(-Home => $self->{dir},
            -Cachesize => 64 << 20,
            -Flags => BerkeleyDB::DB_CREATE() | BerkeleyDB::DB_INIT_CDB()
                | BerkeleyDB::DB_INIT_MPOOL())
            or die "BerkeleyDB: $BerkeleyDB::Error\n";
        $self->{store} = BerkeleyDB::Hash->new(-Filename => 'items.db',
            -Flags => BerkeleyDB::DB_CREATE(), -Env => $env)
            or die "BerkeleyDB: $BerkeleyDB::Error\n";
        return;
    }

    # The environment's own files are a cache of the same items.
    sub bytes {
        my ($self) = @_;
        $self->{store}->db_sync;
        return 512 * (stat "$self->{dir}/items.db")[12];
    }

    sub add {
        my ($self, $keys) = @_;
        my $db = $self->{store};
        for my $key (@$keys) { $db->db_put($key, '') }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($db, $n, $value) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if $db->db_get($key, $value) == 0 }
        return $n;
    }
}

# Only where BerkeleyDB is not: it cannot be written by two processes.
{
    package CBFPeers::DB_File;
    our @ISA = 'CBFPeers';
    sub label  { return 'DB_File' }
    sub shared { return 0 }

    sub needs {
        die "not needed beside BerkeleyDB\n" if $INC{'BerkeleyDB.pm'};
        require DB_File;
        require Fcntl;
        return;
    }

    sub create {
        my ($self) = @_;
        $self->{store} = tie my %hash, 'DB_File', "$self->{dir}/items.db",
            Fcntl::O_RDWR() | Fcntl::O_CREAT(), 0600, $DB_File::DB_HASH
            or die "DB_File: $!\n";
        return;
    }

    sub bytes {
        my ($self) = @_;
        $self->{store}->sync;
        return $self->SUPER::bytes;
    }

    sub add {
        my ($self, $keys) = @_;
        my $db = $self->{store};
        for my $key (@$keys) { $db->put($key, '') }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($db, $n, $value) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if $db->get($key, $value) == 0 }
        return $n;
    }
}

# A server of its own on a socket in the store's directory; no TCP port.
{
    package CBFPeers::Redis;
    use Time::HiRes ();
    our @ISA = 'CBFPeers';
    my %server;    # process id => process that started it
    sub label { return 'Redis set, UNIX socket' }

    sub needs {
        require Redis;
        for my $dir (split(/:/, $ENV{PATH}), '/usr/bin') {
            return if -x "$dir/redis-server";
        }
        die "there is no redis-server\n";
    }

    sub create {
        my ($self) = @_;
        my $dir = $self->{dir};
        my $pid = fork // die "fork: $!\n";
        if (!$pid) {
            local $ENV{PATH} = "$ENV{PATH}:/usr/bin";
            no warnings 'exec';
            exec qw(redis-server --port 0 --unixsocket), "$dir/socket",
                qw(--save), '', qw(--appendonly no --daemonize no --logfile),
                "$dir/log", '--dir', $dir;
            require POSIX;
            POSIX::_exit(127);
        }
        $server{$pid} = $$;
        $self->{pid} = $pid;
        $self->join;
        $self->{base} = $self->used;
        return;
    }

    # The server takes a moment before it listens.
    sub join {
        my ($self) = @_;
        for (1 .. 500) {
            $self->{store} = eval {
                Redis->new(sock => "$self->{dir}/socket");
            };
            return if $self->{store};
            Time::HiRes::sleep(0.01);
        }
        die "redis-server does not answer\n";
    }

    sub used {
        my ($self) = @_;
        return $self->{store}->info->{used_memory};
    }
    sub bytes { return $_[0]->used - $_[0]{base} }

    sub end {
        my ($self) = @_;
        $self->leave;
        stop($self->{pid});
        return;
    }

    sub stop {
        my ($pid) = @_;
        return if ($server{$pid} || 0) != $$;
        delete $server{$pid};
        kill 'TERM', $pid;
        waitpid $pid, 0;
        return;
    }

    sub add {
        my ($self, $keys) = @_;
        my $redis = $self->{store};
        for my $key (@$keys) { $redis->sadd('items', $key) }
        return;
    }

    sub has {
        my ($self, $keys) = @_;
        my ($redis, $n) = ($self->{store}, 0);
        for my $key (@$keys) { $n++ if $redis->sismember('items', $key) }
        return $n;
    }
    sub add_batch { $_[0]{store}->sadd('items', @{ $_[1] }); return }

    sub has_batch {
        my ($self, $keys) = @_;
        return scalar grep { $_ } $self->{store}->smismember('items', @$keys);
    }
    END {
        local $?;
        stop($_) for keys %server;
    }
}

1;
