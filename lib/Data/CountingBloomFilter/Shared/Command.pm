package Data::CountingBloomFilter::Shared::Command;
# The command cbf: which commands there are, their options, help, and how the
# program ends.  What a command does stands in the modules below this one.

use 5.022;
use strict;
use warnings;
use Getopt::Long ();
use Data::CountingBloomFilter::Shared;
use Data::CountingBloomFilter::Shared::Command::Process
    qw(one_line watch_signals disturbed end_by_signal write_out);
use Data::CountingBloomFilter::Shared::Command::Target ();

my @ITEMS = qw(null|0 field|f=i delimiter|d=s item|e=s@ jobs|j=i quiet|q);
my @PLAN  = qw(capacity|n=s rate|p=s);
my $MODE  = 'mode|m=s';
my $OUT   = 'output|o=s';
my $JSON  = 'json|J';

# Each: module and function, least and most arguments, options.
my %COMMAND = (
    create => ['Files', 'create', 1, 1, @PLAN, $MODE],
    add    => ['Items', 'add', 1, undef, @ITEMS,
        qw(new|u atomic|a stream|s)],
    remove => ['Items', 'remove', 1, undef, @ITEMS, 'stream|s'],
    check  => ['Items', 'check', 1, undef, @ITEMS,
        qw(invert-match|v count|c)],
    'count-of' => ['Items', 'count_of', 1, undef, @ITEMS],
    merge  => ['Files', 'merge', 1, undef, $OUT, $MODE],
    freeze => ['Files', 'freeze', 1, 1],
    build  => ['Items', 'build', 1, undef, @ITEMS, @PLAN, $MODE],
    info   => ['Report', 'info', 1, undef, $JSON, 'prometheus|P'],
    histogram => ['Report', 'histogram', 1, 1],
    verify => ['Files', 'verify', 1, undef, 'quiet|q'],
    size   => ['Report', 'size', 0, 0, @PLAN, 'bytes|b=s', $JSON],
    export => ['Files', 'export', 1, 1, $OUT, $MODE],
    import => ['Files', 'import_image', 1, 2, $MODE, 'mutable|w'],
    help   => ['', '', 0, 1],
);

my $FAILED = 2;

# The names of all commands, and the option words of one.
sub commands { return sort keys %COMMAND }

sub options_of {
    my ($class, $command) = @_;
    my (undef, undef, undef, undef, @options) = @{ $COMMAND{$command} };
    return sort map { length > 1 ? "--$_" : "-$_" }
        map { split /\|/, s/[=:].*\z//r } @options, 'help|h';
}

# Runs what the words of the command line say, and returns the exit status.
# $manual is the file that holds the manual page.
sub run {
    my ($class, $manual, @words) = @_;
    # Items and paths are bytes, also where perl was told to decode arguments.
    utf8::encode($_) for grep { utf8::is_utf8($_) } @words;
    binmode $_, ':raw' for \*STDOUT, \*STDERR;
    watch_signals();
    my $status = eval { disturbed(sub { _command($manual, @words) }) };
    my $error  = $@;
    Data::CountingBloomFilter::Shared::Command::Target::tidy_up();
    end_by_signal();
    return $status if defined $status;
    my $line = one_line($error);
    print STDERR "cbf: $line\n";
    return $FAILED;
}

sub _command {
    my ($manual, @words) = @_;
    my $name = shift @words // die "no command given; see 'cbf help'\n";
    return _version() if $name =~ /\A(?:--version|-V)\z/;
    return _help($manual, map { s/\A(?:--help|-h)\z/help/r } @words)
        if $name =~ /\A(?:help|--help|-h)\z/;
    my $command = $COMMAND{$name}
        or die "no such command: $name; see 'cbf help'\n";
    my ($module, $function, $least, $most, @options) = @$command;
    my $option = _options($name, \@words, @options);
    return _help($manual, $name) if $option->{help};
    die "$name: too few arguments; see 'cbf help $name'\n" if @words < $least;
    die "$name: too many arguments; see 'cbf help $name'\n"
        if defined $most && @words > $most;
    my $class = __PACKAGE__ . "::$module";
    eval "require $class; 1" or die $@;
    return $class->can($function)->($option, @words);
}

# Takes the options out of the words.
sub _options {
    my ($name, $words, @options) = @_;
    my $parser = Getopt::Long::Parser->new(
        config => [qw(gnu_getopt no_ignore_case no_auto_abbrev)]);
    my (%option, $wrong);
    local $SIG{__WARN__} = sub { $wrong //= lcfirst $_[0] };
    $parser->getoptionsfromarray($words, \%option, @options, 'help|h')
        or die "$name: " . ($wrong // "wrong options\n") =~ s/\n\z//r
            . "; see 'cbf help $name'\n";
    $option{capacity} = _number($option{capacity}, 1000)
        if defined $option{capacity};
    $option{bytes} = _bytes($option{bytes}) if defined $option{bytes};
    return \%option;
}

# 10000000, 10_000_000, 10M, 1e7.  What is none of these is left to the module
# to refuse.
sub _number {
    my ($text, $kilo) = @_;
    my ($digits, $unit) = $text =~ /\A([0-9][0-9_]*(?:\.[0-9]+)?)([kMGT]?)\z/i
        or return $text;
    return ($digits =~ tr/_//dr) * $kilo ** index('.KMGT', uc($unit) || '.');
}

sub _bytes {
    my ($text) = @_;
    my $bytes = _number($text =~ s/(?:i?B)\z//ir, 1024);
    die "--bytes must be a number, with K, M, G or T after it or not, not"
        . " $text\n" if $bytes !~ /\A[0-9.]+(?:e\+?[0-9]+)?\z/i;
    return $bytes;
}

sub _version {
    return _show("cbf $Data::CountingBloomFilter::Shared::VERSION\n");
}

# The manual page's part about one command, or what commands there are.
sub _help {
    my ($manual, @names) = @_;
    die "help: too many arguments; see 'cbf help'\n" if @names > 1;
    return _show(_part($manual, 'SYNOPSIS|OVERVIEW', 4)) if !@names;
    my $command = $COMMAND{ $names[0] }
        or die "no such command: $names[0]; see 'cbf help'\n";
    my $text = _part($manual, "COMMANDS/$names[0]", 2);
    $text .= _part($manual, 'DESCRIPTION/Items', 2)
        if grep { defined && $_ eq $ITEMS[0] } @$command;
    return _show($text);
}

sub _show { write_out($_[0]); return 0 }

# A part of the manual page as text, moved to the left.
sub _part {
    my ($manual, $section, $spaces) = @_;
    require Pod::Usage;
    open my $out, '>', \my $text or die "$!\n";
    Pod::Usage::pod2usage(
        -input   => $manual, -output     => $out, -exitval  => 'NOEXIT',
        -verbose => 99,      -noperldoc => 1,     -sections => $section,
    );
    close $out;
    return $text =~ s/^ {$spaces}//mgr;
}

1;

__END__

=encoding utf8

=head1 NAME

Data::CountingBloomFilter::Shared::Command - the command cbf

=head1 DESCRIPTION

This is a part of the command L<cbf>, and may change with any release; programs
that work with filters use L<Data::CountingBloomFilter::Shared>.

=head1 SYNOPSIS

    use Data::CountingBloomFilter::Shared::Command;
    exit(Data::CountingBloomFilter::Shared::Command->run($manual, @ARGV));

=head1 METHODS

=head2 run($manual, @words)

Does what the words of the command line say and returns the exit status, or ends
the process by the signal that came.  C<$manual> is the path of the file with
the manual page, for help.

=head2 commands

The names of all commands, sorted.

=head2 options_of($command)

All forms of a command's options, such as C<--quiet> and C<-q>, sorted.

=cut
