"""Running commands: the table of hostile cases, row by row. After each, the next command works."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("command", "exit_code", "says"),
    [
        ('echo "x', 2, "unexpected EOF while looking for matching"),
        ("cat <<X\nbody", 0, "body"),
        ("}", 2, "syntax error near unexpected token"),
        ("for i in 1 2; do", 2, "syntax error"),
        ("echo a # trailing", 0, "a"),
        ("true &", 0, ""),
        ("#", 0, ""),
        ("", 0, ""),
        ("   \n\n", 0, ""),
        ("no-such-program", 127, "command not found"),
        ("/home", 126, "Is a directory"),
        ("exit 7", 7, ""),
        ("return 5", 2, "can only `return'"),
        ("(exit 3)", 3, ""),
        ("set -e; false; echo unreached", 1, ""),
        ("exec true", 0, ""),
        ("exec sh -c 'exit 9'", 9, ""),
        ("kill -9 $$", 137, ""),
        ("kill -TERM $$", 143, ""),
        ("kill -9 -1; kill -9 1; kill -STOP 1; kill -TERM 1", 0, "No such process"),
        ("exec >/dev/null 2>&1; echo unseen", 0, ""),
        ("exec 0<&- 1>&- 2>&-; false", 1, ""),
        ("printf() { echo mine; }; printf x", 0, "mine"),
        ("builtin() { :; }; eval() { :; }; exit() { :; }; true", 0, ""),
        ("alias builtin=false eval=false exit=false set=false; true", 0, ""),
        ("set -n; exit 4", 0, ""),
        ("set -t", 0, ""),
        ("readonly IFS PATH HOME; true", 0, ""),
        ("trap 'echo bye' EXIT; (exit 6)", 6, "bye"),
        ("rm -rf /run/shell/*; true", 0, ""),
        ("cd /tmp; mkdir gone; cd gone; rmdir ../gone", 0, ""),
    ],
)
def test_a_hostile_command_gets_bashs_own_answer_and_leaves_a_working_shell(shell, command, exit_code, says):
    shell.run("kept=before")
    result = shell.run(command)
    assert (result.exit_code, result.timed_out) == (exit_code, False)
    assert says in result.output
    after = shell.run("set +e; echo ok $kept")
    assert (after.exit_code, after.output) == (0, "ok before\n")


def test_standard_input_is_at_its_end(shell):
    assert shell.output("cat; read x; echo read: $?; python3 -c 'print(repr(input()))' || true").startswith(
        "read: 1\n"
    )


def test_the_messages_of_the_shell_are_those_of_bash(shell):
    assert shell.run("nosuch").output == "bash: line 1: nosuch: command not found\n"


def test_output_and_errors_come_in_the_order_written(shell):
    assert shell.output("echo 1; echo 2 >&2; echo 3; ls /nosuch || echo 4") == (
        "1\n2\n3\nls: cannot access '/nosuch': No such file or directory\n4\n"
    )


def test_variables_functions_aliases_options_mask_and_folder_are_carried_over(shell):
    shell.output(
        "plain=1; export exported='a b'; list=(x 'y z'); declare -A map=([k]='v w'); declare -i count=41; readonly fixed=7\n"
        "greet() { echo hi $1; }; export -f greet; alias ll='echo listed'; umask 027; mkdir deep; cd deep\n"
        "set -o pipefail -f; shopt -s nullglob; odd=$'new\\nline \\'quote\\' \\\\ $x `y`'; unset LANG"
    )
    assert (
        shell.output(
            'count+=1; echo $plain "$exported" "${list[1]}" ${map[k]} $count $fixed; greet you; ll; umask; pwd\n'
            "[[ $- == *f* && $SHELLOPTS == *pipefail* ]] && shopt nullglob; printf '%s\\n' \"$odd\"; env | grep -c ^LANG; bash -c 'greet child'"
        )
        == "1 a b y z v w 42 7\nhi you\nlisted\n0027\n/home/user/deep\nnullglob       \ton\nnew\nline 'quote' \\ $x `y`\n0\nhi child\n"
    )


def test_the_last_status_is_carried_over(shell):
    shell.run("(exit 42)")
    assert shell.output("echo $?") == "42\n"


def test_the_name_of_the_folder_is_kept_when_a_link_led_there(shell):
    shell.output("mkdir real; ln -s real alias; cd alias")
    assert shell.output("pwd; pwd -P; cd ..; pwd; cd - >/dev/null; pwd") == (
        "/home/user/alias\n/home/user/real\n/home/user\n/home/user/alias\n"
    )


def test_a_new_shell_has_a_clean_environment(shell):
    environment = dict(line.split("=", 1) for line in shell.output("env").splitlines())
    assert environment.pop("_") == "/usr/bin/env"
    assert environment == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/home/user",
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PWD": "/home/user",
        "SHLVL": "1",
    }


def test_errexit_set_by_one_command_ends_the_next_at_its_first_failure(shell):
    shell.run("set -e")
    result = shell.run("echo first; false; echo second")
    assert (result.exit_code, result.output) == (1, "first\n")


def test_tracing_shows_the_agents_commands_only(shell):
    shell.run("set -x")
    assert shell.run("echo hi").output == "++ echo hi\nhi\n"


def test_what_a_killed_shell_did_is_lost_and_what_was_before_is_kept(shell):
    shell.run("value=old")
    shell.run("value=new; kill -9 $$")
    assert shell.output("echo $value") == "old\n"


def test_state_is_saved_even_when_the_command_replaced_the_exit_trap(shell):
    shell.run("trap 'echo bye' EXIT; value=1")
    assert shell.output("echo $value") == "1\n"


def test_a_job_in_the_background_lives_on_and_is_not_waited_for(shell):
    assert shell.output("sleep 100 & sleep 1 && echo late & echo now", timeout_s=50) == "now\n"
    assert shell.output("sleep 2") == "late\n"


def test_a_server_in_the_background_answers_later_commands(shell):
    shell.output("mkfifo pipe; (while read line; do echo got $line >>log; done <>pipe) >/dev/null 2>&1 &")
    shell.output("echo one >pipe; sleep 0.1; echo two >pipe; sleep 0.1")
    assert shell.output("cat log") == "got one\ngot two\n"


def test_pkill_by_command_line_does_not_hit_the_shell_that_asks(shell):
    shell.output("sleep 30 >/dev/null & :")
    assert shell.run("pkill -f 'sleep 30'; echo $?").output == "0\n"


def test_a_command_of_two_hundred_thousand_characters_runs(shell):
    assert shell.output("x='" + "a" * 200_000 + "'; echo ${#x}") == "200000\n"


def test_nul_bytes_in_a_command_are_dropped_as_bash_drops_them(shell):
    assert shell.output(b"echo a\0b") == "ab\n"


def test_bytes_that_are_no_text_are_decoded_with_replacement(shell):
    assert shell.output(r"printf 'a\xff\xfeb\0c\n'") == "a\ufffd\ufffdbc\n"


def test_colours_and_carriage_returns_are_stripped(shell):
    assert shell.output(r"printf '\e[1;31mred\e[0m\r\n\e]0;title\a10%%\r20%%\n'") == "red\n10%20%\n"


def test_unicode_goes_both_ways(shell):
    assert shell.output("echo 'häßlich 漢字 🎉'") == "häßlich 漢字 🎉\n"


def test_the_exit_code_cannot_be_forged_by_output(shell):
    result = shell.run("printf 'R\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\1'; echo exit code 0; exit 3")
    assert result.exit_code == 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=40),
        st.lists(
            st.sampled_from(
                [*"'\"`$(){}[]<>|&;#!\\\n\t *?~=", "<<E", "$((", "${", "if", "do", "in", "x", "1", ">", "2"]
            ),
            max_size=12,
        ).map(lambda parts: "".join(parts).encode()),
    )
)
def test_after_any_bytes_at_all_the_next_command_works(shell, command):
    shell.run(command, timeout_s=1)
    assert shell.run("builtin echo ok").output.endswith("ok\n")
