# Every message that the sources can give stands in the manual's section
# DIAGNOSTICS, and every message of the module that stands there is in the
# sources.  Reads the texts out of the C sources; knows none itself.
use strict;
use warnings;
use FindBin ();
use lib "$FindBin::Bin/lib";
use Test::More;
use CBFTest;

my $root = "$FindBin::Bin/..";

# What never reaches a user: a success, the general words that a longer message
# replaces, a wait that the glue takes up again, and what only methods for the
# command say.
my %INSIDE = map { $_ => 1 } 'no error', 'system call failed *',
    'unknown error', 'separator must be one byte, not *', 'interrupted by a signal while waiting; nothing was changed';

# Both sides in one form: what varies is a star.
sub plain {
    my ($text) = @_;
    $text =~ s/I<[^>]*>|'?%(?:l*[a-z]|\.\*s)'?|\.\.\./*/g;
    $text =~ s/\s+/ /g;
    $text =~ s/Data::CountingBloomFilter::Shared/CLASS/g;
    return $text;
}

# String literals of C in a row, joined; XS_CLASS is one, and so is PRIu32.
sub literals {
    my ($code) = @_;
    my $text = join '', map { /\A"(.*)"\z/s ? $1 : $_ eq 'XS_CLASS' ? 'CLASS'
        : $_ =~ /\AUVuf|PRIu/ ? 'u' : '' } $code =~ /("(?:[^"\\]|\\.)*"|\w+)/g;
    return $text;
}

my %source;
{
    my $code = slurp("$root/xs/core/error.c");
    while ($code =~ /\bPLAIN\(CBF_\w+,\s*((?:"[^"]*"\s*)+)\)/g) {
        $source{ plain(literals($1)) } = 'error.c';
    }
    while ($code =~ /\bNAMING\(CBF_\w+,\s*("[^"]*"),\s*("[^"]*")\)/g) {
        my ($before, $after) = map { literals($_) } $1, $2;
        $source{ plain("$before I<PATH>$after") } = 'error.c';
    }
    for my $file (glob "$root/xs/*.h $root/xs/*.xs") {
        $code = slurp($file);
        while ($code =~ /\bxs_croak\(aTHX_ [^"]*?,\s*((?:"[^"]*"|UVuf|XS_CLASS|\s)+)[,)]/g)
        {
            $source{ plain(literals($1)) } = $file;
        }
    }
}
delete @source{ grep { $INSIDE{$_} || !/[a-z]{2}/ } keys %source };
cmp_ok(scalar keys %source, '>=', 35, 'messages were found in the sources');

my ($section) = slurp("$root/lib/Data/CountingBloomFilter/Shared.pm") =~
    /^=head1 DIAGNOSTICS\n(.*?)^=head1 /ms;
my ($ours, $others) = split /^=head2 From Perl.*\n/m, $section;
my @items = map { plain($_) } $ours =~ /^=item (.*?)\n\n/msg;
cmp_ok(scalar @items, '>=', 30, 'and in the manual');

# Whether one is the other, or begins it, a star standing for anything.  A text
# of the core may go on with details, or be part of a longer one of the glue.
sub same {
    my ($message, $item) = @_;
    my ($m, $i) = map { join '.*', map { quotemeta } split /\*/, $_, -1 } @_;
    return $item =~ /$m/ || $message =~ /\A$i\z/;
}
for my $message (sort keys %source) {
    ok(scalar(grep { same($message, $_) } @items), "told: $message");
}

# Put together while running, not in one piece.
my %composed = map { $_ => 1 } '* failed for *: *', 'Usage: CLASS::*(*)';
for my $item (grep { !$composed{$_} } @items) {
    ok(scalar(grep { same($_, $item) } keys %source), "real: $item");
}

# After each item, or a few with the same cure, comes a text that says it.
my @paragraphs = grep { /\S/ } split /\n\n+/, $section;
my @bare;
for my $n (grep { $paragraphs[$_] =~ /\A=item / } 0 .. $#paragraphs) {
    my ($next) = grep { !/\A=item / } @paragraphs[$n + 1 .. $#paragraphs];
    push @bare, $paragraphs[$n] if $next =~ /\A=/;
}
is("@bare", '', 'each has a cause and a cure');

done_testing;
