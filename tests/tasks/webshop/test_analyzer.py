"""Index terms against those of Lucene's English analyzer, and the stemmer against NLTK's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from tasks.webshop.analyzer import analyze, tokenize
from tasks.webshop.porter import stem
from tests.tasks.webshop import cases


def test_terms_are_those_of_lucene():
    lines = cases.lines("analyzer_cases.jsonl")
    different = [c["text"] for c in lines if analyze(c["text"]) != c["tokens"]]
    accepted = 0 if cases.FOLDER == cases.OWN else 0.04 * len(lines)
    assert len(different) <= accepted, different


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3.5 1,000 x:y a.b", ["3.5", "1,000", "x:y", "a.b"]),
        ('3-pack (18" x 18")', ["3", "pack", "18", "x", "18"]),
        ("foo_bar ___ 4k", ["foo_bar", "4k"]),
        ("日本 ひら カタカナ", ["日", "本", "ひ", "ら", "カタカナ"]),
        ("☕ tea ❤️ 👨‍👩‍👧", ["☕", "tea", "❤️", "👨‍👩‍👧"]),
        ("½ cup x²", ["cup", "x"]),
        ("cre\u0300me", ["cre\u0300me"]),
    ],
)
def test_words_end_where_the_annex_says(text, words):
    assert tokenize(text) == words


def test_long_words_are_cut():
    assert [len(word) for word in tokenize("a" * 600)] == [255, 255, 90]


def test_possessives_and_stop_words_go():
    assert analyze("The women's and men’s shirts") == ["women", "men", "shirt"]


NLTK = PorterStemmer(PorterStemmer.MARTIN_EXTENSIONS)


@settings(deadline=None)
@given(st.text(alphabet="abcdefgilmnoprstuvyz", max_size=14))
def test_the_stemmer_agrees_with_nltk_in_its_authors_mode(word):
    assert stem(word) == NLTK.stem(word)


@given(st.text())
def test_any_text_can_be_analysed(text):
    assert all(terms and len(terms) <= 255 * 2 for terms in analyze(text))
