"""Rewards against those measured on the original, and what the fixed mode mends."""

import math

import pytest

from harness.errors import RequestError
from tasks.webshop.colours import COLOURS, normalize_colour
from tasks.webshop.product import Product
from tasks.webshop.reward import Wish, compute_reward
from tests.tasks.webshop import cases

CASES = cases.lines("reward_cases.jsonl")


def product_of(case):
    raw = case["purchased"]
    return Product(
        asin="B000000000",
        title=raw["Title"],
        description=raw["Description"],
        bullets=tuple(raw["BulletPoints"]),
        attributes=tuple(raw["Attributes"]),
        category="",
        query=raw["query"],
        product_category=raw["product_category"],
        prices=(),
        price_tag="",
        image="",
        options={},
        nouns=tuple(case["nouns_purchased"]),
    )


def wish_of(case):
    raw = case["goal"]
    return Wish(
        raw["name"],
        raw["query"],
        raw["product_category"],
        tuple(raw["attributes"]),
        raw["goal_options"],
        float(raw["price_upper"]),
        tuple(case["nouns_goal"]),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['tag']}")
def test_the_reward_and_its_components_are_the_originals(case):
    if "error" in case:
        with pytest.raises(RequestError, match=r"price|attributes"):
            compute_reward(product_of(case), wish_of(case), case["price"], case["options"], "original")
        return
    got = compute_reward(product_of(case), wish_of(case), case["price"], case["options"], "original")
    assert got.total == case["reward"]
    assert got.info == case["info"]
    assert got.attribute_matches == case["num_attr_matches"]
    assert got.option_matches == case["num_option_matches"]


@pytest.mark.parametrize("case", cases.lines("normalize_cases.jsonl"), ids=lambda case: case["input"])
def test_colours_are_normalised_as_in_the_original(case):
    assert normalize_colour(case["input"]) == case["output"]


def test_the_colour_words_are_the_originals():
    assert list(COLOURS) == cases.document("colours.json")


SHIRT = Product(
    asin="B000000001",
    title="Orvento Shirt without Stand",
    description="A BPA free fabric.",
    bullets=("Machine wash",),
    attributes=("long sleeve",),
    category="fashion",
    query="shirts",
    product_category="Clothing › Men › Shirts",
    prices=(30.0,),
    price_tag="$30.0",
    image="",
    options={},
    nouns=("orvento", "shirt", "stand"),
)


def fixed(attributes=("long sleeve",), wished=(), options=None, nouns=("shirt",), query="shirts"):
    wish = Wish("Shirt", query, "Clothing › Men › Shirts", attributes, wished, 50.0, nouns)
    return compute_reward(SHIRT, wish, 30.0, options or {}, "fixed")


@pytest.mark.parametrize(
    ("wished", "purchased"),
    [("large", "x-large"), ("8", "8.5"), ("light blue", "dark blue"), ("with stand", "without stand")],
)
def test_fixed_tells_apart_values_that_the_original_takes_for_equal(wished, purchased):
    assert fixed(wished=[wished], options={"size": purchased}).option_matches == 0
    assert fixed(wished=[wished], options={"size": wished}).option_matches == 1


def test_fixed_compares_slashes_and_bars_as_the_catalogue_writes_them():
    assert fixed(wished=["Black/White"], options={"color": "black | white"}).option_matches == 1


def test_fixed_needs_the_value_in_the_group_that_the_goal_names():
    assert fixed(wished={"color": "rose"}, options={"scent": "rose"}).option_matches == 0
    assert fixed(wished={"color": "rose"}, options={"color": "rose"}).option_matches == 1


def test_fixed_lets_one_value_satisfy_one_wish():
    assert fixed(wished=["red", "red"], options={"color": "red"}).option_matches == 1


def test_fixed_finds_attributes_as_whole_words_in_any_case():
    assert fixed(attributes=("bpa free",)).attribute_matches == 1
    assert fixed(attributes=("with",)).attribute_matches == 0
    assert fixed(attributes=("sleeve",)).attribute_matches == 0


def test_fixed_does_not_punish_repeats_in_the_goals_title_nor_an_unlike_title_of_the_right_query():
    assert fixed(nouns=("shirt", "shirt", "shirt")).info["title_score"] == 1.0
    unlike = fixed(nouns=("table",))
    assert unlike.info["title_score"] == 0.0
    assert unlike.total == 1.0


def test_a_bound_without_end_always_holds():
    wish = Wish("Shirt", "shirts", "", ("long sleeve",), [], math.inf, ("shirt",))
    assert compute_reward(SHIRT, wish, 1e9, {}, "original").total == 1.0
