"""Text to index terms, as Lucene's English analyzer does it (tokenizer of Lucene 8, possessives, stop words, Porter).

Word borders follow Unicode Standard Annex 29: letters, digits and underscores run together; a colon, a full stop or an
apostrophe joins letters, a comma, a semicolon, a full stop or an apostrophe joins digits. Ideographs and hiragana are terms
of one character, katakana runs together, an emoji is a term.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tasks.webshop.porter import stem

_STOP_WORDS = "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with"
STOP_WORDS = frozenset(_STOP_WORDS.split())
MAX_TOKEN_LENGTH = 255

_ASCII = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[A-Za-z])[:.'](?=[A-Za-z])|(?<=[0-9])[,;.'](?=[0-9]))[A-Za-z0-9_]+)*"
)

# Combining marks and format characters belong to what stands before them.
_EXTEND = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f\u00ad\u200e\u200f\u2060"
)
_IDEOGRAPH = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_KATAKANA = "\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_COMPLEX = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u103f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer
_NO_LETTER = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2460-\u249b\u24ea-\u24ff\u2776-\u2793\u3220-\u33ff"
_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2"
    "\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622\u2623\u2626\u262a"
    "\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697"
    "\u2699\u269b\u269c\u26a0\u26a1\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3\u26d4"
    "\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2728\u2733"
    "\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07"
    "\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f004\U0001f0cf\U0001f170-\U0001f171\U0001f17e\U0001f17f"
    "\U0001f18e\U0001f191-\U0001f19a\U0001f201\U0001f202\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f250\U0001f251"
    "\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f900-\U0001f9ff"
)
_FLAG = "[\U0001f1e6-\U0001f1ff]"
_SKIN = "[\U0001f3fb-\U0001f3ff]"
_LETTER = rf"(?![{_IDEOGRAPH}{_HIRAGANA}{_KATAKANA}{_COMPLEX}{_NO_LETTER}{_EMOJI}])[^\W\d_]"
_RUN = rf"(?:(?:{_LETTER}|[\d_\u203f\u2040])[{_EXTEND}]*)+"
_MID_LETTER = ":\u00b7\u2027\u0387\u05f4\ufe13\ufe55\uff1a.\u2018\u2019\u2024\ufe52\uff07\uff0e'"
_MID_DIGIT = ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b.\u2018\u2019\u2024\ufe52\uff07\uff0e'"
_MARK = rf"[{_EXTEND}]*"
_PICTURE = rf"[{_EMOJI}]\ufe0f?{_SKIN}?"
_UNICODE = re.compile(
    rf"[0-9#*]\ufe0f?\u20e3|{_FLAG}{_FLAG}|{_PICTURE}(?:\u200d{_PICTURE})*(?!\ufe0e)"
    rf"|[{_IDEOGRAPH}{_HIRAGANA}]{_MARK}|(?:[{_KATAKANA}]{_MARK})+|(?:[{_COMPLEX}]{_MARK})+"
    rf"|{_RUN}(?:(?:(?<=[^\W\d_])[{_MID_LETTER}](?={_LETTER})|(?<=\d)[{_MID_DIGIT}](?=\d)){_RUN})*"
)
_POSSESSIVES = ("'s", "\u2019s", "\uff07s")


def tokenize(text: str) -> list[str]:
    """Words in the order of the text, unchanged; longer than 255 characters are cut into pieces."""
    words = _ASCII.findall(text) if text.isascii() else _UNICODE.findall(text)
    if any(mark in text for mark in "_\u203f\u2040") or max(map(len, words), default=0) > MAX_TOKEN_LENGTH:
        words = [
            word[start : start + MAX_TOKEN_LENGTH]
            for word in words
            if word.strip("_\u203f\u2040")
            for start in range(0, len(word), MAX_TOKEN_LENGTH)
        ]
    return words


@lru_cache(maxsize=65_536)
def _term(word: str) -> str:
    """The term of a word; empty for a stop word."""
    word = word.lower()
    if word.endswith(_POSSESSIVES):
        word = word[:-2]
    return "" if word in STOP_WORDS else stem(word)


def analyze(text: str) -> list[str]:
    """Index terms of a document or a query, in order, repeats kept."""
    return [term for word in tokenize(text) if (term := _term(word))]
