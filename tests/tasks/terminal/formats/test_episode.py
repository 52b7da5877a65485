"""Folders of both layouts, read, built, played and judged."""

import pytest

from tests.tasks.terminal.formats.folders import FINAL, SOLVE, TOML, commands, endless, harbor, play, seen

LAYOUTS = {"endless": endless, "harbor": harbor}


@pytest.fixture(params=LAYOUTS)
def folder(request, tmp_path):
    return LAYOUTS[request.param](tmp_path / "task")


def test_a_solved_task_earns_one(machines, folder):
    trajectory = play(machines, folder, commands(SOLVE, "cat out.txt"))
    assert (trajectory.episode_return, trajectory.success, trajectory.error) == (1.0, True, None)
    assert trajectory.turns[1].result.observation.text == "exit code 0\nHELLO"


@pytest.mark.parametrize("script", [[], ["true"], ["echo WRONG > out.txt"]])
def test_an_unsolved_task_earns_nothing(machines, folder, script):
    trajectory = play(machines, folder, commands(*script))
    assert (trajectory.episode_return, trajectory.success, trajectory.error) == (0.0, False, None)


def test_the_turn_limit_judges_the_state_as_it_stands(machines, folder):
    trajectory = play(
        machines, folder, [f"<command>{SOLVE}</command>", "<command>true</command>"], max_turns=2
    )
    assert trajectory.truncated
    assert trajectory.success


def test_the_agent_starts_in_its_home_and_sees_real_exit_codes(machines, folder):
    trajectory = play(
        machines, folder, commands("pwd; exit 7", "false", "no-such-program", "sleep 30"), command_s=1.0
    )
    texts = [turn.result.observation.text for turn in trajectory.turns]
    assert texts[0] == "exit code 7\n/home/user"
    assert texts[1] == "exit code 1"
    assert texts[2].startswith("exit code 127\n")
    assert texts[3] == "timed out after 1 s"


@pytest.mark.parametrize(
    ("reply", "strict", "endless"),
    [
        ("<think>hm</think><command>echo a</command>", "echo a", "echo a"),
        ("<command>echo a</command> then <command>echo b</command>", None, "echo b"),
        ("<command>echo a</command><action>done</action>", None, "done"),
        ("<think>then <action>done</action></think><command>echo a</command>", "echo a", "done"),
        ("<think><command>echo a</command></think>", None, "echo a"),
        ("<think>never closed <command>echo a</command>", None, "echo a"),
        ("echo a", None, None),
        ("<command>  </command>", None, None),
        ("<action> done </action>", "done", "done"),
    ],
)
def test_the_two_parsers_differ_where_a_reply_is_ambiguous(machines, tmp_path, reply, strict, endless):
    from tasks.terminal.agent import parse_endless, parse_strict

    for parse, wanted in ((parse_strict, strict), (parse_endless, endless)):
        action = parse(reply)
        got = None if action.kind == "invalid" else "done" if action.kind == "done" else action.argument
        assert got == wanted


def test_an_unusable_reply_costs_a_turn_and_gets_the_reminder(machines, tmp_path):
    folder = endless(tmp_path / "task")
    trajectory = play(machines, folder, ["let me see", *commands(SOLVE)])
    assert trajectory.turns[0].result.invalid
    assert "exactly one <command>" in trajectory.turns[1].observation.text
    assert trajectory.success


def test_the_endless_parser_plays_the_last_of_two_commands(machines, tmp_path):
    folder = endless(tmp_path / "task")
    reply = f"<command>false</command><command>{SOLVE}</command>"
    assert play(machines, folder, [reply, "<action>done</action>"], parser="endless").success
    assert not play(machines, folder, [reply, "<action>done</action>"], parser="strict").success


def test_the_episodes_time_ends_it_and_judges_it(machines, tmp_path):
    folder = endless(tmp_path / "task")
    replies = [f"<command>{SOLVE}</command>", "<command>sleep 20</command>", "<command>rm out.txt</command>"]
    trajectory = play(machines, folder, replies, episode_s=3.0, command_s=20.0)
    assert trajectory.success
    assert [turn.result.done for turn in trajectory.turns] == [False, False, True]
    assert trajectory.turns[1].result.info["timed_out"]


def test_the_agents_time_limit_of_harbor_holds(machines, tmp_path):
    toml = TOML.replace("[agent]\ntimeout_sec = 300", "[agent]\ntimeout_sec = 1")
    folder = harbor(tmp_path / "task", toml=toml)
    trajectory = play(
        machines, folder, ["<command>sleep 20</command>", f"<command>{SOLVE}</command>"], command_s=20.0
    )
    assert not trajectory.success
    assert trajectory.turns[0].result.info["timed_out"]


def test_the_verifiers_time_limit_is_its_own(machines, tmp_path):
    slow = "import time\ndef test_slow():\n    time.sleep(60)\n"
    folder = endless(tmp_path / "task", final=slow)
    trajectory = play(machines, folder, commands("true"), verifier_s=2.0)
    assert (trajectory.success, trajectory.error) == (False, None)
    assert trajectory.turns[-1].result.info["verifier_timed_out"]


def test_a_verifier_may_take_longer_than_a_command(machines, tmp_path):
    slow = "import time\ndef test_slow():\n    time.sleep(1.5)\n"
    assert play(machines, endless(tmp_path / "task", final=slow), commands("true"), command_s=1.0).success


def test_the_environment_of_the_definition_is_the_agents(machines, tmp_path):
    environment = "    export GREETING='good day'\n    export PATH=/opt/tools:$PATH"
    folder = endless(tmp_path / "task", environment=environment)
    trajectory = play(machines, folder, commands("echo $GREETING; echo $PATH; echo $HOME"))
    shown = trajectory.turns[0].result.observation.text.split("\n")
    assert shown[1] == "good day"
    assert shown[2].startswith("/opt/tools:/usr/local/sbin:")
    assert shown[3] == "/home/user"


def test_the_environment_and_folder_of_the_dockerfile_are_the_agents(machines, tmp_path):
    dockerfile = """\
        FROM debian:bookworm-slim
        ENV MODE="a b" LEVEL=3
        RUN mkdir -p /app/data && echo "$MODE" > /app/data/mode
        WORKDIR /app
        WORKDIR data
        """
    final = (
        'import os\ndef test_env():\n    assert os.environ["MODE"] == "a b" and os.getcwd() == "/app/data"\n'
    )
    trajectory = play(
        machines, harbor(tmp_path / "task", dockerfile, final), commands("pwd; cat mode; echo $LEVEL $HOME")
    )
    assert trajectory.turns[0].result.observation.text == "exit code 0\n/app/data\na b\n3 /root"
    assert trajectory.success


def test_a_verifier_that_cannot_run_is_missing_data_and_no_reward_of_nought(machines, tmp_path):
    folder = harbor(tmp_path / "task", test_sh="#!/bin/bash\nexit 3\n")
    trajectory = play(machines, folder, commands(SOLVE))
    assert (trajectory.episode_return, trajectory.success) == (None, None)
    assert "no reward file" in trajectory.error


@pytest.mark.parametrize(
    ("script", "reward"),
    [
        ("echo 1 > /logs/verifier/reward.txt; echo custom", 1.0),
        ("echo 0.25 > /logs/verifier/reward.txt; echo custom", 0.25),
        ("echo 0 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json", 1.0),
        ("echo 1 > /logs/verifier/reward.txt; echo '{\"quality\": 0.5}' > /logs/verifier/reward.json", 0.5),
        ("echo 1 > /logs/verifier/reward.txt; echo 0.0 > /logs/verifier/reward.json", 0.0),
        (
            "cd /; python3 -m pytest -q /tests/test_final_state.py && echo 1 > /logs/verifier/reward.txt; exit 1",
            1.0,
        ),
    ],
)
def test_a_script_of_the_tasks_own_gives_its_reward_and_json_wins(machines, tmp_path, script, reward):
    folder = harbor(tmp_path / "task", test_sh=f"#!/bin/bash\n{script}\n")
    trajectory = play(machines, folder, commands(SOLVE))
    assert (trajectory.episode_return, trajectory.success) == (reward, reward == 1.0)


def test_what_the_build_made_is_there_with_modes_times_and_links(machines, tmp_path):
    post = """
    mkdir -p /home/user/d /opt/app /etc/app /srv/www /data
    echo old > /home/user/d/old.log && touch -d '2020-02-03 04:05:06' /home/user/d/old.log
    chmod 640 /home/user/d/old.log
    ln -s old.log /home/user/d/link
    ln /home/user/d/old.log /home/user/d/hard
    printf '#!/bin/sh\\necho tool\\n' > /usr/local/bin/tool && chmod 755 /usr/local/bin/tool
    echo conf > /etc/app/app.conf && echo motd > /etc/motd
    echo secret > /home/user/d/closed && chmod 000 /home/user/d/closed
    mkdir /home/user/shut && echo in > /home/user/shut/in && chmod 000 /home/user/shut
    echo x > /data/x && mkfifo /home/user/d/pipe
    touch -d '2021-01-01' /home/user/d
    """
    script = [
        "stat -c '%n %a %h %y' /home/user/d/old.log | cut -c-60",
        "readlink /home/user/d/link; tool; cat /etc/app/app.conf /etc/motd; cat /data/x; stat -c %F /home/user/d/pipe",
        "stat -c %a /home/user/d/closed /home/user/shut; stat -c %y /home/user/d",
        "echo mine >> /etc/app/app.conf && echo y > /data/y && echo z > /srv/z && echo w > /var/w && echo ok",
        "echo no > /etc/motd; echo no > /etc/new; echo no > /new; echo no > /usr/lib/new",
    ]
    folder = endless(tmp_path / "task", post=post)
    texts = [turn.result.observation.text for turn in play(machines, folder, commands(*script)).turns]
    assert texts[0].startswith("exit code 0\n/home/user/d/old.log 640 2 2020-02-03 04:05:06")
    assert texts[1] == "exit code 0\nold.log\ntool\nconf\nmotd\nx\nfifo"
    assert texts[2].startswith("exit code 0\n0\n0\n2021-01-01 00:00:00")
    assert texts[3] == "exit code 0\nok"
    assert texts[4].count("Read-only file system") == 4


def test_episodes_of_one_task_do_not_see_each_other(machines, tmp_path):
    folder = endless(tmp_path / "task")
    assert play(machines, folder, commands(SOLVE)).success
    assert not play(machines, folder, commands("ls")).success


def test_a_harbor_task_with_several_test_files_is_judged_by_them_all(machines, tmp_path):
    script = "#!/bin/bash\npytest /tests/test_final_state.py /tests/test_more.py -rA\nif [ $? -eq 0 ]; then\n  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n"
    helper = {"tests/helper.py": "WANTED = 'HELLO'\n"}
    more = "from helper import WANTED\ndef test_more():\n    assert open('/home/user/more.txt').read().strip() == WANTED\n"
    folder = harbor(tmp_path / "task", test_sh=script, files={**helper, "tests/test_more.py": more})
    assert not play(machines, folder, commands(SOLVE)).success
    assert play(machines, folder, commands(SOLVE, "cp out.txt more.txt")).success


def test_the_instruction_is_the_first_thing_seen(machines, folder):
    trajectory = play(machines, folder, commands("true"))
    assert trajectory.turns[0].observation.text == "Write in.txt in capitals to out.txt."
    assert FINAL.strip() not in seen(trajectory)
