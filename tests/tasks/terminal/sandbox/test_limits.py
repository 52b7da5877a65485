"""Time, output, memory, processes and disk: limits hold, the observation names them, and nobody else notices."""

import asyncio
import time

import pytest


def test_a_timeout_keeps_partial_output_and_says_so(shell):
    started = time.monotonic()
    result = shell.run("echo partial; sleep 60", timeout_s=0.2)
    assert time.monotonic() - started < 30
    assert (result.exit_code, result.timed_out, result.output) == (None, True, "partial\n")
    assert 0.2 <= result.duration_s < 30


def test_a_timeout_kills_every_process_and_keeps_the_shells_state(shell):
    shell.run("kept=1; mkdir -p work; cd work")
    shell.run("sleep 61 >/dev/null & (setsid sleep 62 &) ; trap '' TERM INT; lost=1; sleep 63", timeout_s=0.3)
    assert shell.output("ps -e -o comm= | sort; echo $kept$lost; pwd").split() == [
        "bash",
        "guest",
        "ps",
        "sort",
        "1",
        "/home/user/work",
    ]


def test_a_reader_of_everything_and_a_stopped_process_time_out_too(shell):
    assert shell.run("tail -f /dev/null", timeout_s=0.2).timed_out
    assert shell.run("kill -STOP $$", timeout_s=0.2).timed_out
    assert shell.output("echo ok") == "ok\n"


def test_endless_output_is_cut_in_the_middle_and_counted(shells):
    shell = shells.start(output_bytes=1000)
    result = shell.run("printf start; yes | head -c 1000000; printf end")
    assert result.total_bytes == 1_000_008
    head, note, tail = result.output.partition("\n[... 999008 bytes left out ...]\n")
    assert note
    assert len(head) == len(tail) == 500
    assert head.startswith("starty\ny\n")
    assert tail.endswith("y\ny\nend")


def test_output_within_the_limit_is_whole(shells):
    shell = shells.start(output_bytes=1000)
    assert shell.run("head -c 1000 /dev/zero | tr '\\0' x").output == "x" * 1000


def test_a_flood_until_the_timeout_ends_in_time(shell):
    result = shell.run("yes", timeout_s=0.3)
    assert result.timed_out
    assert result.total_bytes > 1_000_000
    result = shell.run("cat /dev/urandom", timeout_s=0.2)
    assert result.timed_out
    assert shell.output("echo ok") == "ok\n"


def test_a_job_that_floods_in_the_background_delays_no_command(shell):
    shell.run("yes & :")
    assert shell.run("echo hi", timeout_s=30).exit_code == 0


def test_a_full_disk_is_named_and_the_state_survives_it(shells):
    shell = shells.start(disk_mb=2)
    result = shell.run("head -c 9000000 /dev/zero > /tmp/big; echo done; cd /tmp; seen=1; false")
    assert "No space left on device" in result.output
    assert result.limit == "disk full: /tmp"
    assert shell.output("pwd; echo $seen; rm /tmp/big; echo free > /tmp/f; cat /tmp/f") == "/tmp\n1\nfree\n"


def test_every_writable_place_is_bounded(shells):
    shell = shells.start(disk_mb=1, file_size_mb=9)
    places = shell.output(
        "for d in /* /dev/* /run/*; do [ -d $d -a -w $d ] && echo $d; done; echo /home/user"
    ).split()
    assert {"/tmp", "/dev/shm", "/tests", "/home/user"} <= set(places)
    for place in places:
        assert shell.run(f"head -c 9400000 /dev/zero > {place}/fill").exit_code != 0, place
        shell.run(f"rm -f {place}/fill")


def test_a_file_larger_than_allowed_is_refused(shells):
    shell = shells.start(file_size_mb=1, disk_mb=8)
    result = shell.run("exec head -c 2000000 /dev/zero > f")
    assert (result.exit_code, result.limit) == (153, "file size limit reached")
    assert shell.output("stat -c %s f") == "1048576\n"


def test_a_memory_hog_is_stopped(shells):
    shell = shells.start(memory_mb=64)
    result = shell.run("""perl -e '$x = "a" x (1 << 20); push @y, $x . $_ for 1 .. 500; print "a" . "ll"'""")
    assert result.exit_code not in (0, None)
    assert "all" not in result.output
    assert shell.output("echo ok") == "ok\n"


def test_memory_of_all_processes_together_is_bounded_where_cgroups_are(shells):
    if "memory" not in shells.backend.aggregate_limits:
        pytest.skip("no memory cgroup here")
    shell = shells.start(memory_mb=96)
    hog = """perl -e '$x = "a" x (1 << 20); push @y, $x . $_ for 1 .. 40; sleep 1; print "a" . "ll"' & """
    result = shell.run(hog * 5 + "wait", timeout_s=20)
    assert result.limit == "memory limit reached"
    assert result.output.count("all") < 5


def test_a_fork_bomb_stays_in_its_sandbox_and_is_over_soon(shells):
    bombed, neighbour = shells.start(pids=48), shells.start()
    first = bombed.run(":(){ :|:& };:", timeout_s=1)
    assert neighbour.output("for i in 1 2 3 4 5; do /bin/true & done; wait; echo fine") == "fine\n"
    second = bombed.run("ls; ls; ls", timeout_s=1)
    # The bomb goes off in the background: the limit is met during the first command or the second.
    assert "process limit reached" in f"{first.limit} {second.limit}"
    assert bombed.run("ls / >/dev/null && echo ok", timeout_s=3).output.endswith("ok\n")


def test_the_number_of_processes_is_bounded_in_each_sandbox_on_its_own(shells):
    one, other = shells.start(pids=32), shells.start(pids=32)
    sleepers = "perl -e 'for (1 .. 20) { $p = fork // exit 1; if (!$p) { sleep 5; exit } }' >/dev/null"
    assert one.run(sleepers).exit_code == 0
    assert other.run(sleepers).exit_code == 0
    assert one.run(sleepers).exit_code == 1


def test_eight_sandboxes_at_once_do_not_hold_each_other_up(shells):
    async def episode() -> list[str]:
        from tasks.terminal.sandbox.interface import SandboxLimits

        sandbox = await shells.backend.start(SandboxLimits())
        try:
            await sandbox.run("yes | head -c 300000", 5)
            return [(await sandbox.run(f"echo {n}; sleep 0.1", 5)).output for n in range(3)]
        finally:
            await sandbox.close()

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(episode() for _ in range(8)))

    assert shells.runner.run(all_of_them()) == [["0\n", "1\n", "2\n"]] * 8
