package CBFPod;

# The indented blocks of a page, for the tests that try what the manual says.
# Knows no sample and runs none.
#
# In a page in POD, what a block is may be said in a paragraph before it:
#
#   =for sample preamble      stands before each short sample that follows
#   =for sample output        what the program above prints
#   =for sample shell         commands for a shell
#   =for sample text          none of them
#   =for sample table NAME    rows for a test that looks for NAME
#   =for sample file NAME     a file that the programs below find by that name
#   =for sample needs MODULE  a program that needs it
#
# A block without such a line is Perl: a whole program if it loads the module,
# else a short sample.  A plain text can't say, so there a block that begins with
# "use" is a program and all others are text, or shell where "sh" comes first.

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(blocks_of words_of);

my %TAKES = (
    preamble => 0, output => 0, shell => 0, text => 0,
    table => 1, file => 1, needs => 1,
);

# { line, text, kind, name } for each block, in order; kind also: program, short.
sub blocks_of {
    my ($file) = @_;
    my @paragraphs = paragraphs($file);
    return $file =~ /\.(?:pm|pod)\z/ ? from_pod(@paragraphs)
        : from_text(@paragraphs);
}

# All of a page but its blocks and directives, as one line.
sub words_of {
    my ($file) = @_;
    my $text = join ' ', map { $_->{text} }
        grep { $_->{text} !~ /\A(?:\s|=for )/ } paragraphs($file);
    $text =~ s/\s+/ /g;
    return $text;
}

sub paragraphs {
    my ($file) = @_;
    open my $in, '<:raw', $file or die "$file: $!";
    my ($n, $open, @found) = (0, 0);
    my $pod = $file !~ /\.pm\z/;
    while (my $line = <$in>) {
        $n++;
        $pod = 1 if $line =~ /\A=[a-z]/;
        if ($line !~ /\S/ || !$pod) {
            $open = 0;
            next;
        }
        push @found, { line => $n, text => '' } if !$open;
        $open = 1;
        $found[-1]{text} .= $line;
        $pod = 0 if $line =~ /\A=cut/ && $file =~ /\.pm\z/;
    }
    return @found;
}

sub from_pod {
    my (@blocks, %said);
    my $before = '';
    for my $p (@_) {
        if ($p->{text} =~ /\A=for sample(?:\s+(.*))?$/) {
            my ($kind, $name, @more) = split ' ', defined $1 ? $1 : '';
            die "line $p->{line}: not understood: $p->{text}"
                if !defined $kind || !exists $TAKES{$kind} || @more
                || $TAKES{$kind} != defined $name;
            die "line $p->{line}: nothing followed line $said{line}\n" if %said;
            %said = (kind => $kind, name => $name, line => $p->{line});
        }
        elsif ($p->{text} =~ /\A[ \t]/) {
            if ($before eq 'block' && !%said) {
                my $gap = $p->{line} - $blocks[-1]{line}
                    - ($blocks[-1]{text} =~ tr/\n//);
                $blocks[-1]{text} .= "\n" x $gap . $p->{text};
            }
            else {
                push @blocks, { line => $p->{line}, text => $p->{text},
                    kind => $said{kind}, name => $said{name} };
            }
            %said = ();
            $before = 'block';
            next;
        }
        elsif (%said) {
            die "line $p->{line}: no block after line $said{line}\n";
        }
        $before = '';
    }
    die "no block after line $said{line}\n" if %said;
    return map { settled($_) } @blocks;
}

sub from_text {
    my @blocks;
    my $end = 0;
    for my $p (grep { $_->{text} =~ /\A {4}/ } @_) {
        if (@blocks && between($p, $blocks[-1]{end}, \@_)) {
            my $gap = $p->{line} - $blocks[-1]{line}
                - ($blocks[-1]{text} =~ tr/\n//);
            $blocks[-1]{text} .= "\n" x $gap . $p->{text};
        }
        else {
            push @blocks, { %$p };
        }
        $blocks[-1]{end} = $p->{line};
    }
    for my $b (@blocks) {
        $b->{kind} = $b->{text} =~ /\A {4}use / ? undef
            : $b->{text} =~ /\A {4}sh / ? 'shell' : 'text';
    }
    return map { settled($_) } @blocks;
}

# Whether nothing stands between the paragraph and the one at line $end.
sub between {
    my ($p, $end, $all) = @_;
    return !grep { $_->{line} > $end && $_->{line} < $p->{line} } @$all;
}

# Without its indentation, and with a kind.
sub settled {
    my ($b) = @_;
    $b->{text} =~ s/^ {4}//mg;
    $b->{kind} = 'program' if ($b->{kind} || '') eq 'needs';
    $b->{kind} = $b->{text} =~ /^\s*use Data::CountingBloomFilter::Shared;/m
        ? 'program' : 'short'
        if !defined $b->{kind};
    return $b;
}

1;
