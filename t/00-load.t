# The module loads, says which release it is wherever that is written, has every
# documented method and leaves the caller's name space alone.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib "$FindBin::Bin/lib";
use CBFTest;

watchdog;

my @warned;
local $SIG{__WARN__} = sub { push @warned, @_ };

my %before = map { $_ => 1 } keys %main::;
use_ok($CLASS) or BAIL_OUT('the module does not load');
my @new = grep { !$before{$_} && !/\A_</ && !/::\z/ && main->can($_) }
    keys %main::;
is("@new", '', 'nothing is exported');
is("@warned", '', 'loading is quiet');

my $version = do { no strict 'refs'; ${"${CLASS}::VERSION"} };
is($version, '0.03', 'the version of this release');
is(eval { $CLASS->VERSION('0.03'); 'enough' } || $@, 'enough',
    'a program may ask for it');
my ($first) = grep { /\A\d/ } split /\n/, slurp("$FindBin::Bin/../Changes");
like($first, qr/\A\Q$version\E(?:\s|\z)/, 'Changes begins with this version');

my @constructors = qw(new new_memfd new_from_fd new_readonly new_from_bytes);
my @methods = qw(add add_many contains count_of remove clear merge count
    capacity counters hashes fp_rate path memfd sync unlink freeze frozen
    readonly stats contains_many count_of_many remove_many present absent
    add_if_absent add_if_absent_many estimated_fp_rate histogram geometry
    to_bytes save verify refresh);
for my $name (@constructors, @methods) {
    ok($CLASS->can($name), "method $name");
}

done_testing;
