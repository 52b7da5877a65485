"""Sessions against transcripts of the original, line by line, and what the fixed mode mends."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.webshop.catalogue import Catalogue
from tasks.webshop.session import MAX_ARGUMENT, Outcome, Session, SessionSettings, parse_action
from tests.tasks.webshop import cases

EPISODES = [
    list(lines)
    for _, lines in itertools.groupby(
        cases.lines("transcripts.jsonl"), key=lambda line: (line["goals"], line["episode"])
    )
]


@pytest.mark.parametrize("mode", ["text", "text_rich"])
@pytest.mark.parametrize("episode", EPISODES, ids=lambda lines: f"{lines[0]['goals']}-{lines[0]['episode']}")
def test_transcripts_are_reproduced_line_by_line(episode, mode, measured):
    index, source = episode[0]["episode"], episode[0]["goals"]
    goal = measured.goal(index, source, "original")
    session = Session(measured, goal, SessionSettings(mode, "original"), str(index))
    for line in episode:
        outcome = Outcome() if line["action"] is None else session.act(parse_action(line["action"]))
        assert session.observation() == line[mode]
        assert (outcome.reward, outcome.done) == (line["reward"], line["done"])
        assert session.has_search_bar == line["available"]["has_search_bar"]
        assert session.clickables() == line["available"]["clickables"]
        assert session.url() == line["url"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("search[a b]", ("search", "a b")),
        ('click[18" x 18"] and more', ("click", '18" x 18"')),
        ("search[a[b]c]d]", ("search[a", "b]c]d")),
        ("search[]", ("search[]", None)),
        ("search", ("search", None)),
        ("Click[Buy Now]", ("Click", "buy now")),
        ("search[two\nlines]", ("search[two\nlines]", None)),
        ("", ("", None)),
    ],
)
def test_actions_are_read_as_in_the_original(text, parsed):
    assert tuple(parse_action(text)) == parsed


def shop(**options):
    products = [
        {
            "name": f"Tea {i}",
            "full_description": "",
            "pricing": "$5.00",
            "images": ["a.jpg"],
            "product_category": "Grocery › Tea",
            "small_description": [],
            "customization_options": {
                name: [{"value": v} for v in values] for name, values in options.items()
            },
            "asin": f"B{i:09d}",
            "category": "grocery",
            "query": "tea",
        }
        for i in range(23)
    ]
    attributes = {
        "B000000000": {"attributes": ["hot"], "instruction": "Find tea", "instruction_attributes": ["hot"]}
    }
    return Catalogue.in_memory(products, attributes)


def play(catalogue, *actions, compat="fixed", mode="text", **settings):
    session = Session(
        catalogue, catalogue.goal(0, "synthetic", compat), SessionSettings(mode, compat, **settings)
    )
    outcomes = [session.act(parse_action(action)) for action in actions]
    return session, outcomes


def test_fixed_offers_a_next_page_only_where_there_is_one():
    session, _ = play(shop(), "search[tea]", "click[next >]")
    assert "next >" in session.clickables()
    session, outcomes = play(shop(), "search[tea]", "click[next >]", "click[next >]", "click[next >]")
    assert "next >" not in session.clickables()
    assert outcomes[-1].invalid


def test_fixed_tells_equal_values_of_two_groups_and_buttons_apart():
    catalogue = shop(Color=["Rose", "Description"], Scent=["Rose"])
    open_item = ("search[tea]", "click[b000000000]")
    session, _ = play(catalogue, *open_item)
    assert session.clickables()[-3:] == ["color: rose", "color: description", "scent: rose"]
    session, _ = play(catalogue, *open_item, "click[color: rose]", "click[scent: rose]")
    assert session.page.view.options == {"color": "rose", "scent": "rose"}
    session, _ = play(catalogue, *open_item, "click[color: description]")
    assert session.page.view.options == {"color": "description"}
    session, _ = play(catalogue, *open_item, "click[rose]", compat="original")
    assert session.page.view.options == {"scent": "rose"}
    session, _ = play(catalogue, *open_item, "click[description]", compat="original")
    assert session.page.view.kind == "sub"


def test_fixed_shows_what_was_chosen_where_the_original_does_not():
    catalogue = shop(Size=['18" x 18"', "crème"])
    chosen = ("search[tea]", "click[b000000000]", 'click[18" x 18"]')
    assert '18" x 18" (chosen) [SEP] crème [SEP]' in play(catalogue, *chosen)[0].observation()
    assert "chosen" not in play(catalogue, *chosen, compat="original")[0].observation()
    rich = play(catalogue, *chosen, mode="text_rich")[0].observation()
    assert rich.startswith('You have clicked 18" x 18".\n')
    assert "clicked" not in play(catalogue, *chosen, mode="text_rich", compat="original")[0].observation()


def test_special_searches_work_in_original_alone():
    catalogue = shop()
    assert len(play(catalogue, "search[<q> tea]", compat="original")[0].page.view.results) == 23
    assert len(play(catalogue, "search[<c> grocery]", compat="original")[0].page.view.results) == 23
    session, _ = play(catalogue, "search[<r>]", "click[next >]", compat="original")
    assert len(set(session.page.view.results)) == 23
    for crash in ("search[<a> hot]", "search[<c>]"):
        session, (outcome,) = play(catalogue, crash, compat="original")
        assert outcome.invalid
        assert session.page.view.kind == "index"
    assert len(play(catalogue, "search[<r>]")[0].page.view.results) == 0


def test_words_that_name_a_page_confuse_the_original_alone():
    item = ("search[tea item_page]", "click[b000000000]", "click[description]", "click[< prev]")
    assert play(shop(), *item)[0].page.view.kind == "item"
    assert play(shop(), *item, compat="original")[0].page.view.kind == "results"
    back = ("search[tea search_results]", "click[next >]", "click[b000000010]", "click[< prev]")
    assert play(shop(), *back)[0].page.view.page == 2
    assert play(shop(), *back, compat="original")[0].page.view.page == 1


def test_fixed_sessions_end_with_the_purchase():
    bought = ("search[tea]", "click[b000000000]", "click[buy now]")
    session, outcomes = play(shop(), *bought, "search[tea]")
    assert outcomes[2].done
    assert outcomes[2].reward == 1.0
    assert outcomes[3].invalid == "the session is over"
    assert session.page.view.kind == "done"
    assert play(shop(), *bought, "search[tea]", compat="original")[0].page.view.kind == "results"


def test_attributes_are_shown_where_asked_for():
    session, _ = play(shop(), "search[tea]", "click[b000000000]", "click[attributes]", show_attributes=True)
    assert session.observation().endswith("< Prev [SEP] hot [SEP] grocery [SEP] tea [SEP] Grocery › Tea")


def test_a_long_argument_is_refused_with_the_bound():
    _, (outcome,) = play(shop(), f"search[{'x' * 10_000}]")
    assert outcome.invalid == f"the argument has 10000 characters; accepted: {MAX_ARGUMENT} at most"


def test_the_goal_and_the_reward_stay_out_of_every_page_before_the_purchase(measured):
    goal = measured.goal(1, "synthetic", "fixed")
    for mode in ("text", "text_rich", "html"):
        session = Session(measured, goal, SessionSettings(mode))
        for action in (None, "search[something else]", "click[next >]"):
            if action:
                session.act(parse_action(action))
            assert goal.product.asin not in session.observation()
            assert "score" not in session.observation().lower()


@settings(deadline=None)
@given(st.data())
def test_any_walk_keeps_to_what_is_offered(measured, data):
    compat = data.draw(st.sampled_from(["fixed", "original"]))
    session = Session(measured, measured.goal(0, "human", compat), SessionSettings("text", compat))
    for _ in range(12):
        offered = [a for a in session.admissible() if not a.startswith("search")]
        action = data.draw(
            st.one_of(
                st.sampled_from([*offered, "search[tea]"]), st.text().map(lambda t: f"click[{t}]"), st.text()
            )
        )
        before = session.observation()
        outcome = session.act(parse_action(action))
        if outcome.invalid:
            assert session.observation() == before
        if action in offered:
            assert not outcome.invalid
        assert 0.0 <= outcome.reward <= 1.0
