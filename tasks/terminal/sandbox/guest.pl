# The guest: process 1 of a sandbox. It runs the agent's commands, one fresh bash each, and answers the harness.
#
# Channels. Requests arrive on standard input and replies leave on standard output; both are duplicated to close-on-exec
# descriptors before any command runs, and the guest is not dumpable, so that no process of the agent (same uid) can reach
# them through /proc. Commands write into a pipe of the guest's own. What an agent prints can therefore never be taken for
# a status, and a status never depends on text.
#
# Frames, both ways: kind (1 byte), nonce (8 bytes, echoed), length (u32, big-endian), payload.
#   I  initialise: limits, first environment             R  run a command          W  write files
#   F  freeze: kill everything, run nothing any more     S  read files             V  run the verifier (frozen only)
# Replies repeat the kind of the request, or are E with a sentence.
#
# Shell state (variables, functions, aliases, options, umask, directory, $?) lives in the guest's memory between commands.
# A command's bash reads it from a memfd before the command and writes it to a file under $STATE_DIR at its exit.
#
# No module is loaded: perl alone starts in a millisecond, with POSIX it takes ten.
use strict;
use warnings;

my $STATE_DIR = '/run/shell';
my $STATE_MAX = 4 << 20;    # bytes of shell state carried over
my $DRAIN_AT_ONCE = 1 << 16;

# System calls by number, for the machine that this perl was built for (e_machine of its ELF header).
my %ABI = (
    62  => { setsid => 112, prctl => 157, prlimit64 => 302, memfd_create => 319, statfs => 137, clock => 228, exit => 231, nofollow => 0x20000 },
    183 => { setsid => 157, prctl => 167, prlimit64 => 261, memfd_create => 279, statfs => 43,  clock => 113, exit => 94,  nofollow => 0x8000 },
);
my $PIDFD_OPEN = 434;
my ($O_WRONLY, $O_CREAT, $O_EXCL, $O_NONBLOCK, $WNOHANG, $FIONREAD) = (1, 0x40, 0x80, 0x800, 1, 0x541B);
my ($F_SETFD, $ENOENT, $EINTR, $ECHILD) = (2, 2, 4, 10);

my $abi = do {
    open(my $self, '<', $^X) or die "guest: cannot read $^X: $!\n";
    sysread($self, my $elf, 20);
    $ABI{ unpack('v', substr($elf, 18, 2)) } or die "guest: unknown machine\n";
};
my $NOFOLLOW = $abi->{nofollow};

$0 = 'guest';                             # instead of this source, in what ps shows
syscall($abi->{prctl}, 4, 0, 0, 0, 0);    # PR_SET_DUMPABLE 0: /proc/1 is closed to the agent
$SIG{CHLD} = sub { };                     # interrupts select, so that orphans are reaped as they end

open(my $requests, '<&', \*STDIN)  or die "guest: $!\n";
open(my $replies,  '>&', \*STDOUT) or die "guest: $!\n";
pipe(my $output, my $output_in)    or die "guest: $!\n";
open(STDIN,  '<',  '/dev/null') or die "guest: $!\n";
open(STDOUT, '>&', $output_in)  or die "guest: $!\n";
open(STDERR, '>&', $output_in)  or die "guest: $!\n";
close($output_in);

my ($output_bytes, $process_limit, @disks) = (16384, 0);
my $frozen = 0;
my %state = (options => '', cwd => '/home/user', umask => '', variables => '', functions => '', aliases => '', status => 0);

# ------------------------------------------------------------------------------------------------ frames

sub receive {
    my ($length) = @_;
    my $data = '';
    while (length($data) < $length) {
        my $got = sysread($requests, $data, $length - length($data), length($data));
        if (!defined $got) {
            exit_now(1) if $! != $EINTR;
            while (waitpid(-1, $WNOHANG) > 0) { }    # a job in the background ended
            next;
        }
        exit_now(0) if !$got;    # the harness is gone: so is everything here
    }
    return $data;
}

sub reply {
    my ($kind, $nonce, $payload) = @_;
    my $frame = pack('a1 a8 N', $kind, $nonce, length $payload) . $payload;
    my $at = 0;
    while ($at < length $frame) {
        my $sent = syswrite($replies, $frame, length($frame) - $at, $at);
        if (!defined $sent) { next if $! == $EINTR; exit_now(1) }
        $at += $sent;
    }
}

sub exit_now { syscall($abi->{exit}, $_[0]) }    # the kernel then kills the whole pid namespace

# Splits off a string that is preceded by its length.
sub take {
    my ($buffer) = @_;
    my $length = unpack('N', substr($$buffer, 0, 4, ''));
    return substr($$buffer, 0, $length, '');
}

sub now {
    my $time = "\0" x 16;
    syscall($abi->{clock}, 1, $time);
    my ($seconds, $nanoseconds) = unpack('q q', $time);
    return $seconds + $nanoseconds / 1e9;
}

# ------------------------------------------------------------------------------------------------ output

# Keeps the first and the last half of the limit, and counts everything.
my ($head, $tail, $total);

sub clear_output { ($head, $tail, $total) = ('', '', 0) }

sub drain {
    my ($most) = @_;
    my $got = sysread($output, my $chunk, $most);
    return 0 if !$got;
    $total += $got;
    my $half = $output_bytes >> 1;
    my $room = $half - length $head;
    $head .= substr($chunk, 0, $room, '') if $room > 0;
    $tail .= $chunk;
    $tail = substr($tail, -$half) if length($tail) > $half + $DRAIN_AT_ONCE;
    return $got;
}

# What is in the pipe at this moment: all that a finished command wrote, and no more, however fast a job in the background writes.
sub drain_rest {
    my $waiting = pack('i', 0);
    ioctl($output, $FIONREAD, $waiting) or return;
    my $left = unpack('i', $waiting);
    while ($left > 0) {
        my $got = drain($left < $DRAIN_AT_ONCE ? $left : $DRAIN_AT_ONCE) or return;
        $left -= $got;
    }
}

# ------------------------------------------------------------------------------------------------ processes

# Forks, retrying for a moment when the process limit is reached. undef: it is still reached.
sub try_fork {
    for (1 .. 25) {
        my $pid = fork;
        return $pid if defined $pid;
        while (waitpid(-1, $WNOHANG) > 0) { }
        select(undef, undef, undef, 0.01);
    }
    return undef;
}

# Kills every process but this one, as only process 1 can: nothing can outrun it or escape by forking. False: some are left.
sub kill_all {
    my $deadline = now() + 2;
    while (1) {
        kill 'KILL', -1;
        while (waitpid(-1, $WNOHANG) > 0) { }
        return 1 if $! == $ECHILD;
        return 0 if now() > $deadline;
        select(undef, undef, undef, 0.001);
    }
}

# Waits for a process, collecting output and orphans. Returns (wait status, timed out, seconds, all killed, limit reached).
sub supervise {
    my ($pid, $timeout_s) = @_;
    my $start = now();
    my ($status, $watch);
    my $pidfd = syscall($PIDFD_OPEN, $pid, 0);
    if ($pidfd >= 0) { open($watch, '<&=', $pidfd) }
    while (1) {
        while ((my $ended = waitpid(-1, $WNOHANG)) > 0) { $status = $? if $ended == $pid }
        last if defined $status;
        my $left = $start + $timeout_s - now();
        last if $left <= 0;
        $left = 0.005 if !$watch && $left > 0.005;    # a kernel without pidfd: look every 5 ms
        my $readable = '';
        vec($readable, fileno($output), 1) = 1;
        vec($readable, fileno($watch), 1) = 1 if $watch;
        my $ready = select($readable, undef, undef, $left);
        drain($DRAIN_AT_ONCE) if $ready > 0 && vec($readable, fileno($output), 1);
    }
    my $timed_out = !defined $status;
    my $limit = $status // 1 ? limit_reached() : '';
    my $killed = $timed_out ? kill_all() : 1;
    drain_rest();
    return ($status // 9, $timed_out, now() - $start, $killed, $limit);
}

# Which limit explains a failure, as far as it can be seen from here.
sub limit_reached {
    for my $disk (@disks) {
        my ($path, $buffer) = ("$disk\0", "\0" x 256);
        next if syscall($abi->{statfs}, $path, $buffer) != 0;
        return "disk full: $disk" if (unpack('q5', $buffer))[4] == 0;
    }
    opendir(my $folder, '/proc') or return '';
    return (grep { /^\d+$/ } readdir $folder) >= $process_limit ? 'process limit reached' : '';
}

sub result {
    my ($status, $timed_out, $seconds, $limit) = @_;
    my $half = $output_bytes >> 1;
    $tail = substr($tail, -$half) if length($tail) > $half;
    return pack('n C N Q>', $status & 0xFFFF, $timed_out, int($seconds * 1e6), $total)
        . pack('N/a* N/a* N/a*', $head, $tail, $limit);
}

# ------------------------------------------------------------------------------------------------ the shell's state

# bash's own variables: a new bash makes them anew.
my $SPECIAL = join '|', qw(BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND
    BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_REMATCH BASH_SOURCE BASH_SUBSHELL
    BASH_TRAPSIG BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS
    HISTCMD HOSTNAME HOSTTYPE LINENO MACHTYPE OSTYPE PIPESTATUS POSIXLY_CORRECT PPID PWD RANDOM SHELLOPTS SHLVL SRANDOM
    UID _ __command __options __save __status);
my %UNSAFE_OPTION = map { $_ => 1 } qw(noexec onecmd privileged restricted);    # would end the shell, or silence it
my @DEFAULT_OPTIONS = qw(braceexpand hashall interactive-comments);

# Run when the shell exits: only builtins, proof against functions and aliases of any name and against every option. In
# POSIX mode the special builtins (set, unset, eval, exit, trap) are found before functions; a backslash stops aliases.
my $FINISH = '{ __status=$? __options=$SHELLOPTS/$BASHOPTS POSIXLY_CORRECT=;\eval "${__save-}";} 2>/dev/null';
my $SAVE = <<'END';
\set +euvxfk
\unset -f builtin
\unset -v POSIXLY_CORRECT __command __save
\builtin printf '%s\0' "$__options" "$__status"
\builtin umask -p
\builtin printf '\0'
\builtin pwd
\builtin printf '\0'
\builtin declare -p
\builtin printf '\0'
\builtin declare -f
\builtin declare -F
\builtin printf '\0'
\builtin alias -p
\builtin printf '\0end'
END

sub quoted {
    my ($text) = @_;
    $text =~ s/'/'\\''/g;
    return "'$text'";
}

# What a new bash sources before the command.
sub prologue {
    my ($fd, $command, $state_file) = @_;
    my ($options, $shopts) = split m{/}, $state{options}, 2;
    my %on = map { $_ => 1 } grep { /^[a-z-]+$/ && !$UNSAFE_OPTION{$_} } split /:/, $options // '';
    # Tracing begins with the command itself.
    $command = '\builtin set -x;' . $command if delete $on{xtrace};
    my @set = $state{options} eq '' ? () : ((map { $on{$_} ? () : ('+o', $_) } @DEFAULT_OPTIONS), map { ('-o', $_) } sort keys %on);
    my @shopt = grep { /^[a-z0-9_]+$/ } split /:/, $shopts // '';
    return join "\n",
        "exec $fd<&-",
        'echo 500 >/proc/self/oom_score_adj',    # the guest must outlive them all
        $state{umask},
        @shopt ? ('shopt -u ${BASHOPTS//:/ }', "shopt -s @shopt") : (),
        $state{variables},
        '__command=' . quoted($command),
        '__save=' . quoted('\eval ' . quoted($SAVE) . " >|$state_file"),
        "trap -- " . quoted($FINISH) . " EXIT",
        $state{functions},
        $state{aliases},
        @set ? "\\builtin set @set" : (),
        "\\builtin return " . ($on{errexit} ? 0 : $state{status}),
        '';
}

# Takes over what the shell left; a state that is not whole (killed shell, full disk) leaves the earlier one in force.
sub load_state {
    my ($file) = @_;
    return if !sysopen(my $handle, $file, $NOFOLLOW | $O_NONBLOCK);
    unlink $file;
    return if !-f $handle || -s _ > $STATE_MAX;
    my $text = '';
    while (sysread($handle, $text, 1 << 16, length $text)) { }
    my ($options, $status, $umask, $cwd, $variables, $functions, $aliases, $end) = split /\0/, $text, -1;
    return if !defined $end || $end ne 'end';
    chomp $cwd;
    # `declare -F` prints a line per function, wanted only where it carries an attribute (exported, traced, read-only).
    $functions =~ s/^declare -f \S+\n//mg;
    $variables =~ s/^declare -[A-Za-z-]+ (?:$SPECIAL)(?:=.*)?\n//mg;
    %state = (options => $options, cwd => $cwd, umask => $umask, variables => $variables, functions => $functions,
        aliases => $aliases, status => $status =~ /^\d+$/ ? $status : 0);
}

# A fresh bash in a session of its own. Its name for itself is bash, so its messages are those of `bash -c`; the command is
# not among its arguments, so that `pkill -f` finds what it should.
sub run_command {
    my ($nonce, $timeout_s, $command) = @_;
    my $state_file = "$STATE_DIR/" . unpack('H*', $nonce);
    my $name = "command\0";
    my $fd = syscall($abi->{memfd_create}, $name, 1);
    die "memfd_create: $!\n" if $fd < 0;
    open(my $script, '+<&=', $fd) or die "memfd: $!\n";
    my $text = prologue($fd, $command, $state_file);
    for (my $at = 0; $at < length $text;) { $at += syswrite($script, $text, length($text) - $at, $at) // die "memfd: $!\n" }
    clear_output();
    my $pid = try_fork();
    if (!defined $pid) {
        my $killed = kill_all();
        die "processes of the agent survive SIGKILL\n" if !$killed;
        drain_rest();
        return result(9, 0, 0.25, 'process limit reached; every process was killed');
    }
    if (!$pid) {
        syscall($abi->{setsid});
        fcntl($script, $F_SETFD, 0);
        # bash takes the folder's name, links and all, from PWD.
        %ENV = chdir($state{cwd}) ? (PWD => $state{cwd}) : chdir('/') ? () : ();
        exec { '/bin/bash' } 'bash', '-c', ". /proc/self/fd/$fd 2>/dev/null;\\builtin eval \"\$__command\";"
            . $FINISH . ';POSIXLY_CORRECT=;\exit $__status', 'bash' or exit_now(127);
    }
    close($script);
    my ($status, $timed_out, $seconds, $killed, $limit) = supervise($pid, $timeout_s);
    die "processes of the agent survive SIGKILL\n" if !$killed;
    load_state($state_file);
    return result($status, $timed_out, $seconds, $limit);
}

# ------------------------------------------------------------------------------------------------ files

# The folders above a path, each made where it is missing; a symbolic link among them is refused.
sub make_parents {
    my ($path) = @_;
    my @parts = grep { length } split m{/}, $path;
    pop @parts;
    my $at = '';
    for my $part (@parts) {
        $at .= "/$part";
        if (lstat $at) { die "$at: not a folder\n" if !-d _ }
        else { mkdir $at, 0755 or die "$at: $!\n" }
    }
}

sub write_tree {
    my ($payload) = @_;
    my @folders;
    while (length $$payload) {
        my ($kind, $mode) = unpack('a1 n', substr($$payload, 0, 3, ''));
        my ($path, $content) = (take($payload), take($payload));
        make_parents($path);
        if ($kind eq 'd') {
            if (!lstat $path) { mkdir $path, 0700 or die "$path: $!\n" }
            elsif (!-d _) { die "$path: not a folder\n" }
            push @folders, [$path, $mode];
            next;
        }
        unlink $path or $! == $ENOENT or die "$path: $!\n";
        if ($kind eq 'l') { symlink($content, $path) or die "$path: $!\n"; next }
        sysopen(my $file, $path, $O_WRONLY | $O_CREAT | $O_EXCL | $NOFOLLOW, 0600) or die "$path: $!\n";
        for (my $at = 0; $at < length $content;) {
            $at += syswrite($file, $content, length($content) - $at, $at) // die "$path: $!\n";
        }
        chmod $mode, $file or die "$path: $!\n";
    }
    for my $folder (reverse @folders) { chmod $folder->[1], $folder->[0] or die "$folder->[0]: $!\n" }
}

# Everything under the roots, as lstat sees it. Nothing but regular files is ever opened, and no link is followed: agents'
# processes are dead by then, so what lstat said still holds when the file is opened.
sub read_tree {
    my ($most_entries, $file_bytes, $total_bytes, @roots) = @_;
    my ($answer, $entries, @opened) = ('', 0);    # @opened: folders whose mode forbade reading, and that mode
    ROOT: for my $root (@roots) {
        my @parts = grep { length } split m{/}, $root;
        for my $depth (0 .. $#parts - 1) {
            lstat('/' . join '/', @parts[0 .. $depth]) or next ROOT;
            next ROOT if !-d _;
        }
        my @stack = ($root);
        while (defined(my $path = pop @stack)) {
            my @stat = lstat $path or next;
            return undef if ++$entries > $most_entries;
            my ($mode, $links, $size) = @stat[2, 3, 7];
            my ($kind, $content) = ('o', undef);
            if (-d _) {
                $kind = 'd';
                if (($mode & 0500) != 0500 && chmod 0700, $path) { push @opened, [$path, $mode & 07777] }
                if (opendir(my $folder, $path)) {
                    my $prefix = $path eq '/' ? '/' : "$path/";
                    push @stack, map { $prefix . $_ } sort { $b cmp $a } grep { $_ ne '.' && $_ ne '..' } readdir $folder;
                    closedir $folder;
                }
            }
            elsif (-l _) { ($kind, $content) = ('l', readlink $path) }
            elsif (-f _) {
                $kind = 'f';
                if ($size <= $file_bytes && $size <= $total_bytes) { $content = read_file($path, $mode & 07777) }
                $total_bytes -= length $content if defined $content;
            }
            $answer .= pack('a1 n N Q> N/a* C', $kind, $mode & 07777, $links, $size, $path, defined $content);
            $answer .= pack('N/a*', $content) if defined $content;
        }
    }
    chmod $_->[1], $_->[0] for reverse @opened;
    return $answer;
}

sub read_file {
    my ($path, $mode) = @_;
    my $closed = !($mode & 0400) && chmod 0400, $path;
    my $content = '';
    if (sysopen(my $file, $path, $NOFOLLOW | $O_NONBLOCK)) {
        while (sysread($file, $content, 1 << 20, length $content)) { }
    }
    else { $content = undef }
    chmod $mode, $path if $closed;
    return $content;
}

sub remove_all {
    my ($path) = @_;
    lstat $path or return;
    if (!-d _) { unlink $path; return }
    chmod 0700, $path;
    opendir(my $folder, $path) or return;
    remove_all("$path/$_") for grep { $_ ne '.' && $_ ne '..' } readdir $folder;
    closedir $folder;
    rmdir $path;    # a mount point stays, empty
}

# ------------------------------------------------------------------------------------------------ the verifier

# A new process after the freeze, with a clean environment; what is under the tests' folder is only what is written now.
sub verify {
    my ($timeout_s, $payload) = @_;
    remove_all('/tests');
    if (-d '/logs') { remove_all('/logs'); mkdir '/logs/verifier', 0755 or die "/logs/verifier: $!\n" }
    my ($arguments, $tree) = (take($payload), take($payload));
    write_tree(\$tree);
    my @argv = split /\0/, $arguments, -1;
    -x $argv[0] or die "the verifier cannot run: $argv[0]: $!\n";
    clear_output();
    my $pid = try_fork() // die "cannot fork the verifier: $!\n";
    if (!$pid) {
        syscall($abi->{setsid});
        %ENV = (PATH => '/usr/bin:/bin:/usr/local/bin', HOME => '/tmp', LANG => 'C.UTF-8');
        chdir '/';
        exec { $argv[0] } @argv or exit_now(127);
    }
    my ($status, $timed_out, $seconds, $killed, $limit) = supervise($pid, $timeout_s);
    kill_all() or die "processes of the verifier survive SIGKILL\n";
    return result($status, $timed_out, $seconds, $limit);
}

# ------------------------------------------------------------------------------------------------ requests

# Limits hold from here on, for the guest and for all that it starts; they cannot be raised again.
sub initialise {
    my ($payload) = @_;
    my ($limits, $environment);
    ($output_bytes, $process_limit, $limits, $environment, @disks) = split /\0/, $payload, -1;
    for my $limit (split / /, $limits) {
        my ($resource, $value) = split /=/, $limit;
        my $now = "\0" x 16;
        syscall($abi->{prlimit64}, 0, $resource + 0, 0, $now) == 0 or die "rlimit $limit: $!\n";
        my $hard = (unpack('Q2', $now))[1];
        $value = $hard if $value > $hard;    # a harness that is bounded more tightly itself
        my $pair = pack('Q2', $value, $value);
        syscall($abi->{prlimit64}, 0, $resource + 0, $pair, 0) == 0 or die "rlimit $limit: $!\n";
    }
    $state{variables} = $environment;
    return '';
}

sub handle {
    my ($kind, $nonce, $payload) = @_;
    return initialise($payload) if $kind eq 'I';
    if ($kind eq 'W') { write_tree(\$payload); return '' }
    if ($kind eq 'R' && !$frozen) { return run_command($nonce, unpack('N', $payload) / 1000, substr($payload, 4)) }
    if ($kind eq 'F') {
        $frozen = 1;
        kill_all() or die "processes of the agent survive SIGKILL\n";
        return '';
    }
    if ($kind eq 'S' && $frozen) {
        my ($entries, $file_bytes, $total_bytes) = unpack('N Q> Q>', $payload);
        return read_tree($entries, $file_bytes, $total_bytes, split /\0/, substr($payload, 20)) // die "too many files\n";
    }
    if ($kind eq 'V' && $frozen) { return verify(unpack('N', $payload) / 1000, \substr($payload, 4)) }
    die "request $kind is refused " . ($frozen ? 'after' : 'before') . " the freeze\n";
}

while (1) {
    my ($kind, $nonce, $length) = unpack('a1 a8 N', receive(13));
    my $payload = receive($length);
    my $answer = eval { handle($kind, $nonce, $payload) };
    if (defined $answer) { reply($kind, $nonce, $answer) }
    else { reply('E', $nonce, $@) }
}
