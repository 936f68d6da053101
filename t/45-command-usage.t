# cbf itself: help, the manual page against the options there are, words that it
# does not know, progress on a terminal, and completion in bash.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use File::Spec ();
use File::Temp ();
use Test::More;
use Time::HiRes ();
use CBFCommand;
use CBFTest;
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command;
use Data::CountingBloomFilter::Shared::Command::Input;
use Data::CountingBloomFilter::Shared::Command::Progress;
use Data::CountingBloomFilter::Shared::Command::Spool;

watchdog(90);

my $COMMAND = 'Data::CountingBloomFilter::Shared::Command';
my @names = qw(add build check count-of create export freeze help histogram
    import info merge remove size verify);
my $dir = File::Temp->newdir;

sub out_of {
    my $run = cbf(@_);
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$run->{status}$run->{signal}$run->{err}", '00', "cbf @_");
    return $run->{out};
}

is(join(' ', $COMMAND->commands), "@names", 'the commands');

subtest 'help' => sub {
    my $help = out_of('help');
    like($help, qr/^\s+\Q$_\E\s{2,}\S/m, "names $_") for @names;
    is(out_of($_), $help, '... the same') for '--help', '-h';
    for my $name (@names) {
        my $text = out_of('help', $name);
        is(out_of($name, '--help'), $text, '... the same');
        like($text, qr/\A\Q$name\E:\n\s+cbf \Q$name\E\b|\Ahelp:\n\s+cbf help/,
            '... begins with how to use it');
        my ($short) = grep { $_ ne '--help' && /\A--/ }
            $COMMAND->options_of($name);
        like($text, qr/\Q$short\E\b/, "... and tells of $short") if $short;
    }
    is(out_of('check', '-h', 'x', 'y'), out_of('help', 'check'), 'among others');
    is(out_of('--version'), "cbf $Data::CountingBloomFilter::Shared::VERSION\n",
        'version');
    fails(cbf('help', 'nothing'), qr/no such command: nothing/, 'of nothing');
    fails(cbf('help', 'add', 'check'), qr/too many/, 'of two');
};

subtest 'words it does not know' => sub {
    fails(cbf(), qr/no command given/, 'none');
    fails(cbf('chekc', 'x'), qr/no such command: chekc/, 'a typing error');
    fails(cbf('--frob'), qr/no such command: --frob/, 'an option alone');
    fails(cbf("a\nb"), qr/no such command: a\\x0ab/, 'control characters');
    for my $name (@names) {
        fails(cbf($name, '--frob'), qr/unknown option: frob; see 'cbf help \Q$name\E'/,
            "$name --frob") if $name ne 'help';
        fails(cbf($name, ('x') x 9), qr/too many arguments/, "$name: too many")
            if $name =~ /\A(?:create|freeze|histogram|size|export|import|help)\z/;
        fails(cbf($name), qr/too few|give one/, "$name: too few")
            if $name !~ /\Ahelp\z/;
    }
};

# The manual page: each command has its part, and each part all its options.
subtest 'manual page' => sub {
    my ($pod) = slurp($CBF) =~ /\n__END__\n(.*)/s;
    my ($commands) = $pod =~ /^=head1 COMMANDS\n(.*?)^=head1 /ms;
    my %part = $commands =~ /^=head2 (\S+)\n(.*?)(?=^=head2 |\z)/msg;
    my ($items) = $pod =~ /^=head2 Items\n(.*?)^=head2 /ms;
    is(join(' ', sort keys %part), "@names", 'a part for each command');
    my @shared = grep { !/help|-h\z/ } $COMMAND->options_of('count-of');
    my %shared = map { $_ => 1 } @shared;
    like($items, qr/B<\Q$_\E>/, "Items: $_") for @shared;
    for my $name (@names) {
        next if $name eq 'help';
        my @options = $COMMAND->options_of($name);
        my $reads = grep { $_ eq '--null' } @options;
        my @own = grep { !/\A(?:--help|-h)\z/ && !($reads && $shared{$_}) }
            @options;
        for my $option (@own) {
            like($part{$name}, qr/^ .*(?<![-\w])\Q$option\E(?![-\w])/m,
                "$name: $option");
        }
        my %known = map { $_ => 1 } @options;
        my @told = $part{$name} =~ /(?<![-\w])(--?[a-z0-9][-a-z]*)/gi;
        my @odd = grep { !$known{$_} } @told;
        is("@odd", '', "$name: and no others");
        like($part{$name}, qr/L<\/Items>/, "$name: says what items are")
            if $reads;
    }
};

# ---- progress --------------------------------------------------------------

subtest 'progress' => sub {
    my $f = "$dir/f.cbf";
    $CLASS->new($f, 1000);
    my ($ours, $theirs) = terminal(80);
    plan skip_all => 'no terminals here' if !$theirs;
    my $run = cbf(['add', $f], in => "a\nb\na\n", err_to => $theirs);
    close $theirs;
    is($run->{status} . read_terminal($ours), "0add: 3 items, 2 of them new\n",
        'on a terminal: a last line');
    for my $case (['add', '-q', $f], ['check', '-q', $f], ['check', $f]) {
        ($ours, $theirs) = terminal(80);
        cbf($case, in => "a\n", err_to => $theirs);
        close $theirs;
        is(read_terminal($ours), '', "nothing of @$case[0, 1]"
            =~ s/\Q$dir\E\S+/a file/r);
    }

    # The clock is ours; a terminal it is, too.
    my $class = $COMMAND . '::Progress';
    my $now = 1000;
    no warnings 'redefine';
    local *Time::HiRes::time = sub { $now };
    my $told = sub {
        my ($code) = @_;
        my ($ours, $theirs) = terminal(80);
        open my $kept, '>&', \*STDERR or die;
        open STDERR, '>&', $theirs or die;
        close $theirs;
        my $lived = eval { $code->(); 1 };
        open STDERR, '>&', $kept or die;
        return $@ if !$lived;
        return read_terminal($ours);
    };
    local @INC = grep { ref } @INC;    # whatever is installed
    is($told->(sub {
        my $p = $class->new('build', total => 200e6);
        for my $step ([10e6, 0.4], [10e6, 0.5], [10e6, 0.2], [10e6, 0.9]) {
            $now += $step->[1];
            $p->more($step->[0]);
        }
        $p->end;
    }), "build: 30.0 MB (15 %), 1 s\n", 'a line a second');
    is($told->(sub {
        my $p = $class->new('add', total => undef);
        $now += 1.5;
        $p->upto(1_500_000);
        $now += 1.5;
        $p->upto(99e9);
        $p->end;
        $p->say('done');
    }), "add: 1.5 MB, 1 s\nadd: 99000.0 MB, 3 s\nadd: done\n", '... of no known end');
    is($told->(sub {
        my $p = $class->new('add');
        $now += 9;
        $p->more(9);
        $p->end;
        $p->say('done');
    }), '', '... or none');
    my $input = spew("$dir/input", "a line\n" x 20_000);
    is($told->(sub {
        local *Time::HiRes::time = sub { $now += 0.3 };
        (my $class = $COMMAND . '::Input')->new(
            { name => 'add', jobs => 1 }, $input)->run_whole(
            batch => sub { '' }, report => sub { return () });
    }), "add, reading: 0.1 MB (93 %), 1 s\nadd: 0.1 MB (93 %), 1 s\n",
        '... twice, of what is read twice');

    local $INC{'Term/ProgressBar.pm'} = __FILE__;
    my @calls;
    {
        no warnings 'once';
        local *Term::ProgressBar::new = sub {
            push @calls, $_[1];
            return bless [], 'Term::ProgressBar';
        };
        local *Term::ProgressBar::update = sub { push @calls, $_[1] };
        is($told->(sub {
            my $p = $class->new('add', total => 100);
            $now += 2;
            $p->more(30);
            $now += 0.1;
            $p->more(20);
            $p->end;
        }), '', 'Term::ProgressBar is asked, where it is installed');
    }
    is($calls[0]{count} . $calls[0]{name}, '100add', '... with the end');
    is("@calls[1 .. $#calls]", '30 100', '... as far as it is');
};

# ---- completion --------------------------------------------------------------

my $script = File::Spec->rel2abs("$FindBin::Bin/../eg/cbf-completion.bash");
my ($bash) = grep { -x } map { "$_/bash" } File::Spec->path;

# What bash would offer for these words, the last of which is being written.
sub completed {
    my @words = @_;
    my $code = 'source "$1"; shift; compopt() { :; }; COMP_WORDS=("$@");'
        . ' COMP_CWORD=$(($# - 1)); complete -p cbf >/dev/null || exit 9;'
        . ' _cbf; [ ${#COMPREPLY[@]} = 0 ] || printf "%s\n" "${COMPREPLY[@]}"';
    open my $out, '-|', $bash, '--norc', '-c', $code, 'bash', $script, 'cbf',
        @words or die "bash: $!";
    chomp(my @got = <$out>);
    close $out or return "bash ended with $?";
    return join ' ', sort @got;
}

SKIP: {
    skip 'bash is not installed', 1 if !$bash;
    subtest 'completion' => sub {
        is(system($bash, '-n', $script), 0, 'bash can read it');
        is(completed(''), join(' ', sort @names, '--help', '--version'),
            'all commands');
        is(completed('c'), 'check count-of create', 'those that begin so');
        is(completed('ver'), 'verify', 'the only one');
        is(completed('x'), '', 'none');
        is(completed('help', 'ex'), 'export', 'help of a command');
        is(completed('help', 'export', ''), '', '... of one only');
        for my $name (grep { $_ ne 'help' } @names) {
            is(completed($name, '-'),
                join(' ', sort $COMMAND->options_of($name)),
                "all options of $name");
        }
        is(completed('check', '--inv'), '--invert-match', 'one option');
        chdir $dir or die;
        spew($_, '') for 'one file', 'other', '-odd';
        is(completed('check', 'o'), 'one file other', 'files');
        is(completed('check', 'f.cbf', 'ot'), 'other', '... further on');
        is(completed('build', '--mode', ''), '0444 0600 0640 0644', 'modes');
        is(completed('add', '-j', ''), '1 2 4 8', 'jobs');
        is(completed('add', '--field', ''), '', 'no words where there are none');
        is(completed('add', '--', '-o'), '-odd', 'files behind --');
        is(completed('frob', ''), '', 'nothing of what is no command');
        chdir '/' or die;
    };
}

done_testing;
