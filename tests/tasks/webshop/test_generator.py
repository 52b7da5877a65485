"""The generated catalogue: deterministic, in the original's formats, every goal reachable."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tasks.webshop.catalogue import Catalogue, write
from tasks.webshop.generator.generate import (
    ATTRIBUTES_FILE,
    HUMAN_FILE,
    PRODUCTS_FILE,
    asin,
    products,
    tables,
    write_files,
)
from tasks.webshop.reading import read_products, read_table
from tasks.webshop.reward import compute_reward
from tests.tasks.webshop import cases


@pytest.fixture(scope="module")
def generated():
    return Catalogue.in_memory(products(1000, 0), *tables(1000, 0))


def test_every_record_is_kept(generated):
    report = generated.facts["report"]
    assert (report["kept"], report["bad"], report["skipped"]) == (1000, {}, {})


@pytest.mark.parametrize("compat", ["fixed", "original"])
@pytest.mark.parametrize("source", ["synthetic", "human"])
def test_every_goal_is_reached_by_buying_its_product(generated, source, compat):
    assert generated.goal_count(source) > 100
    for index in range(generated.goal_count(source)):
        goal = generated.goal(index, source, compat)
        options = goal.options if source == "synthetic" else dict(enumerate(goal.options))
        price = generated.price(generated.number(goal.product.asin), compat)
        assert compute_reward(goal.product, goal.wish, price, options, compat).total == 1.0, goal.instruction


def test_most_goals_are_found_by_their_own_words(generated):
    found = 0
    for index in range(300):
        goal = generated.goal(index, "synthetic", "fixed")
        words = goal.instruction.split(", and price")[0]
        found += generated.number(goal.product.asin) in generated.search(words)
    assert found >= 0.99 * 300


def test_records_have_the_fields_of_the_originals_files():
    measured = json.loads((cases.CATALOGUE / "items_shuffle_1000.json").read_text())
    known = set(measured[0])
    for record in products(200, 3):
        assert set(record) <= known
    prices = Counter(
        "none" if not r["pricing"] else "range" if " - " in r["pricing"] else "one" for r in products(1000, 0)
    )
    assert set(prices) == {"none", "range", "one"}


def test_asins_differ_and_are_short():
    for count in (10, 1000, 70_000):
        asins = {asin(0, number, count) for number in range(count)}
        assert len(asins) == count
        assert max(map(len, asins)) <= 10


def test_files_hold_what_is_made_in_memory(tmp_path, generated):
    write_files(tmp_path / "files", 1000, 0)
    folder = tmp_path / "files"
    assert list(read_products(str(folder / PRODUCTS_FILE))) == list(products(1000, 0))
    facts = write(
        tmp_path / "shop",
        read_products(str(folder / PRODUCTS_FILE)),
        read_table(str(folder / ATTRIBUTES_FILE)),
        read_table(str(folder / HUMAN_FILE)),
    )
    assert Catalogue.open(tmp_path / "shop").sha256() == generated.sha256()
    assert facts["report"]["kept"] == 1000


def test_the_catalogue_is_a_function_of_its_seed_whatever_the_hash_seed(generated):
    code = (
        "from tasks.webshop.catalogue import Catalogue\n"
        "from tasks.webshop.generator.generate import products, tables\n"
        "print(Catalogue.in_memory(products(1000, 0), *tables(1000, 0)).sha256())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in (1, 2)
    }
    assert hashes == {generated.sha256()}
    assert Catalogue.in_memory(products(1000, 1), *tables(1000, 1)).sha256() != generated.sha256()
