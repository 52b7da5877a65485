"""Search against what the original found, and the pruned path of large indexes against plain sums."""

import math

import numpy as np
import pytest

from tasks.webshop.search import IndexBuilder, SearchIndex, decoded_length, length_code
from tests.tasks.webshop import cases


@pytest.mark.parametrize(
    "case", cases.document("search_cases.json")["queries"], ids=lambda case: case["query"]
)
def test_the_order_of_the_results_is_the_originals(case, measured):
    got = measured.scored(case["query"])
    assert [measured.product(number).asin for number, _ in got] == case["asins"]
    assert [score for _, score in got] == pytest.approx(case["scores"], abs=1e-4)


def test_the_average_length_is_the_originals(measured):
    assert measured.facts["average_length"] == cases.document("search_cases.json")["avgdl"]


def test_length_codes_are_lucenes():
    # Decoded lengths of Lucene's SmallFloat.byte4ToInt: exact to 40, then 8 steps per doubling.
    assert [decoded_length(length_code(n)) for n in (0, 23, 24, 39, 40, 41, 42, 56, 57, 59, 60, 64)] == [
        *(0, 23, 24, 39, 40, 40, 42, 56, 56, 56, 60, 64)
    ]
    assert decoded_length(255) == 2013265944
    lengths = [length_code(n) for n in range(100_000)]
    assert lengths == sorted(lengths)


def test_a_large_index_finds_what_plain_sums_find():
    generator = np.random.Generator(np.random.Philox(7))
    vocabulary = [f"w{i}" for i in range(300)]
    weights = 1 / np.arange(1, 301)
    documents = [
        [
            vocabulary[i]
            for i in generator.choice(300, size=generator.integers(1, 30), p=weights / weights.sum())
        ]
        for _ in range(30_000)
    ]
    builder = IndexBuilder()
    for terms in documents:
        builder.add(terms)
    rank = generator.permutation(len(documents)).astype(np.int32)
    index = SearchIndex(builder.build(rank), builder.documents, builder.average_length)
    average = sum(map(len, documents)) / len(documents)

    def plain(query):
        scores = {}
        for term in query:
            df = sum(term in terms for terms in documents)
            for number, terms in enumerate(documents):
                if term in terms:
                    tf, dl = terms.count(term), decoded_length(length_code(len(terms)))
                    idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                    gain = idf * tf / (tf + 0.9 * (1 - 0.4 + 0.4 * dl / average))
                    scores[int(rank[number])] = scores.get(int(rank[number]), 0.0) + gain
        return scores

    queries = (["w0", "w1", "w250"], ["w3"], ["w299", "w298", "w0", "w0"], ["w40", "w41", "w42", "w2", "w1"])
    for query in queries:
        expected = plain(query)
        got = index.search(query)
        best = sorted(expected.values(), reverse=True)[:50]
        assert [score for _, score in got] == pytest.approx(best, rel=1e-5)
        assert all(expected[document] == pytest.approx(score, rel=1e-5) for document, score in got)
        keys = [(-score, document) for document, score in got]
        assert keys == sorted(keys)
    assert index.search(["unknown"]) == []


def test_any_keywords_can_be_searched(measured):
    assert measured.search("") == ()
    assert measured.search("\ud800 \x00 <r> ' OR 1=1") is not None
    assert measured.search("tea " * 2500) == measured.search("tea")
