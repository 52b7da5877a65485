"""Goals and prices against the original's after the same seed, and their splits."""

import pytest

from harness.errors import RequestError
from tasks.webshop.goals import split_ranges
from tasks.webshop.prices import parse_pricing
from tests.tasks.webshop import cases

EXPECTED = cases.document("goals_prices.json")


@pytest.mark.parametrize("source", ["synthetic", "human"])
def test_goals_are_the_originals_in_its_order(source, measured):
    goals = EXPECTED[source]["goals"]
    assert measured.goal_count(source) == EXPECTED[source]["n_goals"]
    for index, expected in enumerate(goals):
        goal = measured.goal(index, source, "original")
        product = goal.product
        assert (
            product.asin,
            product.category,
            product.query,
            product.title,
            product.product_category,
        ) == tuple(expected[key] for key in ("asin", "category", "query", "name", "product_category"))
        assert goal.instruction == expected["instruction_text"]
        assert list(goal.attributes) == expected["attributes"]
        assert goal.price_upper == expected["price_upper"]
        assert goal.weight == pytest.approx(expected["weight"], rel=1e-12)
        if source == "synthetic":
            assert list(goal.options.items()) == list(expected["goal_options"].items())
        else:
            assert list(goal.options) == expected["goal_options"]


@pytest.mark.parametrize("source", ["synthetic", "human"])
def test_prices_are_the_originals(source, measured):
    for asin, price in EXPECTED[source]["product_prices"].items():
        assert measured.price(measured.number(asin), "original") == price


def test_fixed_prices_are_what_the_page_can_charge_at_most(measured):
    for asin in list(EXPECTED["human"]["product_prices"])[:200]:
        number = measured.number(asin)
        assert measured.price(number, "fixed") == measured.product(number).prices[-1]
    ranged = [i for i in range(len(measured)) if len(measured.product(i).prices) == 2]
    assert ranged
    for index in range(measured.goal_count("synthetic")):
        goal = measured.goal(index, "synthetic", "fixed")
        assert goal.price_upper > goal.product.prices[-1]


@pytest.mark.parametrize(
    ("raw", "prices", "tag"),
    [
        ("$12.99", (12.99,), "$12.99"),
        ("$10.71 - $18.34", (10.71, 18.34), "$10.71 to $18.34"),
        ("$1,234.00", (1234.0,), "$1234.0"),
        ("$1.00 - $2.00 - $3.00", (1.0, 2.0), "$1.0 to $2.0"),
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
    ],
)
def test_pricing_is_read_as_in_the_original(raw, prices, tag):
    assert parse_pricing(raw) == (prices, tag)


@pytest.mark.parametrize("raw", ["12.99", "$", "$1.2.3"])
def test_pricing_without_a_number_is_refused(raw):
    with pytest.raises(ValueError):
        parse_pricing(raw)


def test_splits_are_disjoint_and_cover_all_goals():
    assert split_ranges(12_087) == {
        "train": range(1500, 12_087),
        "dev": range(500, 1500),
        "heldout": range(500),
    }
    for goals in (0, 1, 7, 254, 1926, 2999, 3000, 6910):
        parts = [set(part) for part in split_ranges(goals).values()]
        assert sum(map(len, parts)) == len(set().union(*parts)) == goals


@pytest.mark.parametrize("index", [-1, 10**5, 10**30])
def test_a_goal_out_of_range_is_a_clear_error(index, measured):
    with pytest.raises(RequestError, match=f"accepted: 0 to {EXPECTED['synthetic']['n_goals'] - 1}"):
        measured.goal(index, "synthetic", "fixed")
