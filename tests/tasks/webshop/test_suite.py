"""The suite through the common rollout path, its agents and prompts, its catalogue's cache and its commands."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from harness.errors import EnvironmentFault, InfrastructureError, RequestError
from harness.interfaces import Action, Observation, StepResult, Turn
from harness.policies.scripted import ScriptedPolicy
from harness.rollout import Decoding, run_episodes
from tasks.webshop import cli, shop
from tasks.webshop.agent import parse_plain, parse_tagged, webshop_agent
from tasks.webshop.catalogue import Catalogue, write
from tasks.webshop.generator.generate import products, tables
from tasks.webshop.suite import WebShopSettings, WebShopSuite
from tasks.webshop.vocabulary import content_words


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        shop.generated.cache_clear()
        yield folder
    shop.generated.cache_clear()


@pytest.fixture(scope="module")
def suite(cache):
    return WebShopSuite(WebShopSettings())


def play(suite, tasks, scripts):
    async def run():
        await suite.open(8)
        try:
            return await run_episodes(
                ScriptedPolicy(scripts), suite.agent(), suite, tasks, Decoding(0.0, 0, ("t",)), concurrency=8
            )
        finally:
            await suite.close()

    return asyncio.run(run())


def test_splits_are_disjoint_and_named_in_the_manifest(suite):
    manifest = suite.manifest()
    ids = {split: [task.task_id for task in suite.tasks(split)] for split in suite.splits()}
    assert suite.splits() == ("train", "dev", "heldout")
    assert manifest["sizes"] == {split: len(names) for split, names in ids.items()}
    assert len(set().union(*ids.values())) == sum(map(len, ids.values()))
    assert manifest["tagger"] == "heuristic-1"
    with pytest.raises(RequestError, match="accepted: train, dev, heldout"):
        suite.tasks("test")


def test_the_manifest_tells_catalogues_and_modes_apart(suite):
    hashes = [
        WebShopSuite(WebShopSettings(**changes)).manifest()["sha256"]
        for changes in (
            {},
            {"compat": "original"},
            {"goals": "human"},
            {"products": 60},
            {"catalogue_seed": 1},
        )
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == suite.manifest()["sha256"]


def test_fingerprints_differ_and_stay(suite):
    tasks = suite.tasks("heldout")
    prints = [task.fingerprint for task in tasks]
    assert len(set(prints)) == len(prints)
    assert suite.tasks("heldout")[3].fingerprint == prints[3]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"observation": "text", "compat": "original", "results_per_page": 10},
        {"observation": "html", "goals": "human"},
        {"observation": "text_rich", "prompt": "action", "compat": "original", "goals": "human"},
    ],
    ids=str,
)
def test_experts_buy_what_is_asked_for(cache, changes):
    suite = WebShopSuite(WebShopSettings(**changes))
    tasks = list(suite.tasks("heldout"))[:60]
    scripts = [suite.demonstration(task, "expert", 0) for task in tasks]
    trajectories = play(suite, tasks, scripts)
    assert all(trajectory.error is None for trajectory in trajectories)
    assert sum(t.success for t in trajectories) >= 0.85 * len(tasks)
    assert not any(turn.result.invalid for t in trajectories for turn in t.turns)
    for trajectory in trajectories:
        assert trajectory.success == (trajectory.episode_return == 1.0)
        assert trajectory.turns[-1].result.info["components"]["w_price"] > 0


def test_flawed_shoppers_mostly_fail(suite):
    tasks = suite.demonstration_tasks(200)
    scripts = [suite.demonstration(task, "flawed", 0) for task in tasks]
    trajectories = play(suite, tasks, scripts)
    assert sum(t.success for t in trajectories) < 0.25 * len(tasks)
    assert scripts == [suite.demonstration(task, "flawed", 0) for task in tasks]
    assert scripts != [suite.demonstration(task, "flawed", 1) for task in tasks]


def test_demonstration_tasks_repeat_the_training_split_under_other_names(suite):
    train = suite.tasks("train")
    tasks = suite.demonstration_tasks(2 * len(train))
    assert len({task.task_id for task in tasks}) == len(tasks)
    assert {task.goal.index for task in tasks} == {task.goal.index for task in train}


def test_without_a_purchase_there_is_no_reward(suite):
    (trajectory,) = play(suite, list(suite.tasks("dev"))[:1], [["search[tea]"] * 50])
    assert trajectory.truncated
    assert len(trajectory.turns) == 15
    assert (trajectory.episode_return, trajectory.success) == (0.0, False)


def test_replies_that_are_no_action_cost_a_turn_and_change_nothing(suite):
    (trajectory,) = play(suite, list(suite.tasks("dev"))[:1], [["buy it", "click[nothing]", "search[tea]"]])
    first, second, third = trajectory.turns[:3]
    assert [turn.result.invalid for turn in (first, second, third)] == [True, True, False]
    assert first.observation == second.observation == third.observation
    assert second.result.info["reason"] == "nothing of that text can be clicked on this page"


def test_an_environment_needs_an_open_suite_and_a_task_of_its_own(suite):
    closed = WebShopSuite(WebShopSettings())
    with pytest.raises(InfrastructureError, match="not open"):
        closed.environment()

    async def other_mode():
        await closed.open(1)
        other = WebShopSuite(WebShopSettings(compat="original")).tasks("dev")[0]
        await closed.environment().reset(other, 0)

    with pytest.raises(EnvironmentFault, match="compat fixed"):
        asyncio.run(other_mode())


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("search[blue shirt]", Action("search", "blue shirt")),
        (" click[Buy Now]\n", Action("click", "buy now")),
        ("buy now", Action("invalid", "buy now")),
        ("search[]", Action("invalid", "search[]")),
        ("Search[x]", Action("invalid", "Search[x]")),
        ("", Action("invalid", "")),
    ],
)
def test_plain_replies(reply, action):
    assert parse_plain(reply) == action


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("<think>I <action>click[a]</action>?</think><action>search[tea]</action>", "search"),
        ("<action> click[buy now] </action>", "click"),
        ("search[tea]", "invalid"),
        ("<action>click[a]</action><action>click[b]</action>", "invalid"),
        ("<think>never closed <action>click[a]</action>", "invalid"),
    ],
)
def test_tagged_replies(reply, kind):
    assert parse_tagged(reply).kind == kind


def turn(number, invalid=False):
    info = {"reason": "no such button"} if invalid else {}
    result = StepResult(Observation("after"), 0.0, False, invalid, info)
    action = Action("click", f"b{number}")
    return Turn(Observation(f"page {number}"), (), (), (), f"click[b{number}]", action, "stop", result, 0, 0)


@pytest.mark.parametrize("prompt", ["action", "think"])
def test_the_prompt_shows_the_last_steps_and_what_can_be_done(prompt):
    agent = webshop_agent(prompt, 2, 15, 512)
    now = Observation("page now", ("click[next >]", "click[buy now]"))
    (message,) = agent.messages([turn(1), turn(2, invalid=True), turn(3)], now)
    assert message.role == "user"
    for shown in (
        "page 2",
        "click[b2] (it did nothing: no such button)",
        "page 3",
        "3 of 15 steps",
        "page now",
    ):
        assert shown in message.content
    assert "page 1" not in message.content
    assert message.content.index("page 3") < message.content.index("page now")
    assert "click[next >]\nclick[buy now]" in message.content
    assert ("<action>" in message.content) == (prompt == "think")
    (first,) = webshop_agent(prompt, 0, 15, 512).messages([turn(1)], now)
    assert "page 1" not in first.content


def test_the_vocabulary_covers_what_is_read(suite):
    words, markers = suite.vocabulary()
    assert len(set(words)) == len(words) == len(content_words())
    assert all(word.isascii() and word == word.lower() for word in words)
    assert len(words) + len(markers) < 500
    goal = suite.tasks("train")[0].goal
    assert set(goal.attributes) <= set(words)


def test_the_generated_catalogue_is_made_once_and_kept(cache):
    WebShopSuite(WebShopSettings(products=70)).manifest()
    (folder,) = [
        path for path in (cache / "async-es-bench" / "webshop").iterdir() if "generated-70-0-" in path.name
    ]
    (folder / "records.bin").write_bytes(b"damaged")
    shop.generated.cache_clear()
    assert WebShopSuite(WebShopSettings(products=70)).manifest()["products"] == 70


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    shop.generated.cache_clear()
    assert len(shop.generated(60, 0)) == 60
    shop.generated.cache_clear()


def test_a_missing_catalogue_is_named():
    with pytest.raises(RequestError, match=r"suite\.catalogue = '/no/such'.*bench webshop prepare"):
        WebShopSuite(WebShopSettings(catalogue="/no/such")).manifest()


def test_a_prepared_folder_is_a_suite(tmp_path):
    write(tmp_path / "shop", products(60, 4), *tables(60, 4))
    suite = WebShopSuite(WebShopSettings(catalogue=str(tmp_path / "shop")))
    assert suite.manifest()["catalogue_sha256"] == Catalogue.open(tmp_path / "shop").sha256()


def test_generate_and_prepare_from_the_command_line(tmp_path, cache):
    run = CliRunner().invoke
    made = run(cli.app, ["generate", "--products", "60", "--seed", "2", "--out", str(tmp_path / "files")])
    assert made.exit_code == 0, made.output
    names = [
        str(tmp_path / "files" / name)
        for name in ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
    ]
    records = json.loads((tmp_path / "files" / "items_shuffle.json").read_text())
    records.append({**records[0], "asin": "BAD", "images": []})
    (tmp_path / "files" / "items_shuffle.json").write_text(json.dumps(records))
    options = [
        "--products",
        names[0],
        "--attributes",
        names[1],
        "--human",
        names[2],
        "--out",
        str(tmp_path / "shop"),
    ]
    prepared = run(cli.app, ["prepare", *options])
    assert prepared.exit_code == 0, prepared.output
    assert "60 of 61 products prepared" in prepared.output
    assert "BAD: images: there is none" in prepared.output
    expected = Catalogue.in_memory(products(60, 2), *tables(60, 2))
    opened = Catalogue.open(tmp_path / "shop")
    assert opened.search("usb cables") == expected.search("usb cables")
    found = run(cli.app, ["search", "usb cables", "--catalogue", str(tmp_path / "shop"), "--limit", "1"])
    assert opened.product(opened.search("usb cables")[0]).asin in found.output
    again = run(cli.app, ["prepare", *options])
    assert isinstance(again.exception, RequestError)


def test_a_server_of_something_else_is_refused(cache):
    suite = WebShopSuite(WebShopSettings(server="ftp://x"))
    with pytest.raises(RequestError, match=r"accepted: such as http://127\.0\.0\.1:3000"):
        asyncio.run(suite.open(1))
    suite = WebShopSuite(WebShopSettings(server="http://127.0.0.1:9"))
    with pytest.raises(InfrastructureError, match="no answer"):
        asyncio.run(suite.open(1))
