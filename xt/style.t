# The habits a machine can check, so that review can talk of meaning.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use XTTree;

my $LINES_MAX     = 600;    # of a file, its manual not counted
my $LINES_MANY    = 500;
my $FUNCTION_MAX  = 80;

my @files = grep { !/\.cbf\z/ } shipped();
my @c     = c_sources();
my @xs    = grep { m{\Axs/.*\.(?:[ch]|xs)\z} } @files;
my @code  = (@c, grep { /\.xs\z/ } @files);
my @core  = grep { m{\Axs/core/} } @c;
my @perl  = grep { /\.(?:pm|pl|t|PL)\z/ } @files;
cmp_ok(scalar @core, '>', 15, 'there is a core');
cmp_ok(scalar @perl, '>', 15, 'there is Perl');

# Collects "file:line text" of what is wrong; passes if nothing is.
sub none_wrong {
    my ($name, $files, $check) = @_;
    my @wrong;
    for my $file (@$files) {
        $check->($file, sub { push @wrong, "$file:" . join ' ', @_ });
    }
    ok(!@wrong, $name) or diag(join "\n", @wrong[0 .. ($#wrong > 19 ? 19 : $#wrong)]);
    return;
}

sub each_line {
    my ($code) = @_;
    return sub {
        my ($file, $wrong) = @_;
        my $n = 0;
        for my $line (split /\n/, slurp(root() . "/$file"), -1) {
            $n++;
            $wrong->($n, $line) if $code->($line, $file);
        }
    };
}

# C without what comments and literals hold, its lines where they were.
sub bare {
    my ($file) = @_;
    my $text = slurp(root() . "/$file");
    $text =~ s{
        ( /\* .*? \*/ ) | ( "(?:[^"\\\n]|\\.)*" ) | ( '(?:[^'\\\n]|\\.)+' )
    }{
        defined $1 ? "\n" x ($1 =~ tr/\n//) : defined $2 ? '""' : "'0'"
    }gsex;
    return $text;
}

sub in_code {
    my ($pattern) = @_;
    return sub {
        my ($file, $wrong) = @_;
        my $n = 0;
        for my $line (split /\n/, bare($file), -1) {
            $n++;
            $wrong->($n, $line) if $line =~ $pattern;
        }
    };
}

# ---- lines -----------------------------------------------------------------

none_wrong('no line of C or XS is longer than 79', \@code,
    each_line(sub { length $_[0] > 79 && $_[0] !~ /\AMODULE = / }));
none_wrong('no tabs', [@code, @perl], each_line(sub { $_[0] =~ /\t/ }));
none_wrong('no space at the end of a line',
    [grep { !/\AMANIFEST/ } @files], each_line(sub { $_[0] =~ /[ \t\r]\z/ }));
none_wrong('no marks of unfinished work', \@files,
    each_line(sub { $_[0] =~ /\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b/ }));
none_wrong('nothing of the machine it was written on', \@files,
    each_line(sub { $_[0] =~ m{(?<![\w.])/(?:wo[r]k|ho[m]e|ro[o]t)/} }));
none_wrong('files end with a line end, and not with empty lines', \@files,
    sub {
        my ($file, $wrong) = @_;
        $wrong->('end') if slurp(root() . "/$file") !~ /[^\n]\n\z/;
    });

none_wrong("no file has more than $LINES_MAX lines", [@code, @perl], sub {
    my ($file, $wrong) = @_;
    my $text  = slurp(root() . "/$file") =~ s/^__END__\n.*//smr;
    my $lines = $text =~ tr/\n//;
    $wrong->("$lines lines") if $lines > $LINES_MAX;
    diag("$file has $lines lines: split it?")
        if $lines > $LINES_MANY && $lines <= $LINES_MAX;
});

# ---- C ---------------------------------------------------------------------

none_wrong('each C file opens with what it is for', \@c, sub {
    my ($file, $wrong) = @_;
    $wrong->('1') if slurp(root() . "/$file") !~ m{\A/\*};
});
none_wrong('comments are /* */', \@code, in_code(qr{//}));
none_wrong('one statement a line', \@c, in_code(
    qr/\A(?!.*\b(?:for \(|struct \{)).*;\s*[^\s\\}]/));
none_wrong('no unbounded string calls', \@code, in_code(
    qr/\b(?:v?sprintf|strcpy|strcat|strtok|gets)\s*\(/));
none_wrong('the core does not speak, leave or jump', \@core, in_code(
    qr/\b(?:v?f?printf|puts|perror|strerror\w*|exit|_exit|abort|assert
        |longjmp|signal|sigaction)\s*\(/x));
none_wrong('no assignment in a condition', \@c, sub {
    my ($file, $wrong) = @_;
    my $code   = bare($file);
    my $nested = qr/(\((?:[^()]++|(?-1))*+\))/;
    while ($code =~ /\b(if|while|switch|for)\s*$nested/g) {
        my ($word, $condition) = ($1, $2);
        $condition = (split /;/, $condition)[1] // '' if $word eq 'for';
        my $line = 1 + (substr($code, 0, $-[0]) =~ tr/\n//);
        $wrong->($line, $condition)
            if $condition =~ /(?<![=!<>])=(?!=)/;
    }
});
none_wrong("no function is longer than $FUNCTION_MAX lines",
    [grep { /\.c\z/ } @c], sub {
        my ($file, $wrong) = @_;
        my ($n, $start) = (0, 0);
        for my $line (split /\n/, bare($file)) {
            $n++;
            $start = $n if $line eq '{';
            $wrong->($start, $n - $start) if $line eq '}' && $start
                && $n - $start > $FUNCTION_MAX;
        }
    });

# ---- who may know what -----------------------------------------------------

none_wrong('atomic access is spelled in one header',
    [grep { !m{/atomic\.h\z} } @core], in_code(qr/\b__(?:atomic|sync)_/));
none_wrong('one file calls futex', [grep { !m{/lock_futex\.c\z} } @core],
    in_code(qr/\bSYS_futex\b|\bFUTEX_/));
# Links to what the process itself has open are no more than descriptors.
none_wrong('one file asks /proc about processes',
    [grep { !m{/owner\.c\z} } @core],
    each_line(sub { $_[0] =~ m{"/proc(?!/self/(?:fd|map_files)/)} }));
none_wrong('one file knows the hash', [grep { !m{/hash\.c\z} } @core],
    in_code(qr/\bXXH/));
none_wrong('the glue includes the contract only',
    [grep { !m{\Axs/core/} } @xs],
    each_line(sub { $_[0] =~ m{#\s*include\s+"(?:core/)?(\w+)\.h"}
        && -f root() . "/xs/core/$1.h" && $1 ne 'cbf' }));
my $plain = qr/atomic|error|format|killpoint/;    # no functions of their own
my %leaf = map { $_ => 1 } qw(geometry hash counter owner);
none_wrong('leaf modules include no other module',
    [grep { m{/(\w+)\.[ch]\z} && $leaf{$1} } @core], each_line(sub {
        my ($line, $file) = @_;
        my ($self) = $file =~ m{/(\w+)\.[ch]\z};
        return $line =~ /#\s*include\s+"(\w+)\.h"/
            && $1 !~ /\A(?:\Q$self\E(?:_\w+)?|$plain)\z/;
    }));
none_wrong('the core knows nothing of Perl', \@core,
    in_code(qr/#\s*include\s+[<"](?:perl|XSUB|EXTERN|ppport)\.h/));

# ---- Perl ------------------------------------------------------------------

none_wrong('Perl is strict', \@perl, sub {
    my ($file, $wrong) = @_;
    my $text = slurp(root() . "/$file");
    $wrong->($_) for grep { $text !~ /^use $_;/m } qw(strict warnings);
});
none_wrong('each Perl file says what it is for', [grep { !m{\Alib/} } @perl],
    sub {
        my ($file, $wrong) = @_;
        my ($head) = slurp(root() . "/$file") =~ /\A((?:.*\n){3})/;
        $wrong->('1') if $head !~ /^# \w/m;
    });

# ---- one version -----------------------------------------------------------

my $main = slurp(root() . '/lib/Data/CountingBloomFilter/Shared.pm');
my ($version) = $main =~ /^our \$VERSION = '([0-9.]+)';/m;
ok($version, 'the module has a version') or BAIL_OUT('no version');
my ($newest) = slurp(root() . '/Changes') =~ /^v?([0-9]+\.[0-9_]+)\b/m;
is($newest, $version, 'Changes begins with it');
my ($readme) = slurp(root() . '/README') =~ /\A\S+ ([0-9.]+)\n/;
is($readme, $version, 'README names it');
for my $file (grep { m{\Alib/.*\.pm\z} } @files) {
    my @copies = slurp(root() . "/$file") =~
        /(?:^our \$VERSION = '|^Version |^version )([0-9.]+[0-9])/mg;
    is("@copies", join(' ', ($version) x @copies), "$file: copies agree");
}

done_testing;
