"""Porter's stemmer in its author's revised form (bli to ble, logi to log), which Lucene's English analyzer uses.

M. F. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), with the author's later changes. Words of one or two
letters stay as they are.
"""

from __future__ import annotations

from functools import lru_cache

_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


def _shape(word: str) -> str:
    """``c`` or ``v`` per letter; y is a vowel after a consonant."""
    shape: list[str] = []
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and bool(shape) and shape[-1] == "c")
        shape.append("v" if vowel else "c")
    return "".join(shape)


def _measure(stem: str) -> int:
    """How often a run of vowels is followed by a run of consonants."""
    return _shape(stem).count("vc")


def _has_vowel(stem: str) -> bool:
    return "v" in _shape(stem)


def _double_consonant(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _short_end(word: str) -> bool:
    """Ends consonant, vowel, consonant, where the last is not w, x or y."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        stem = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(stem):
            break
        if word.endswith(ending):
            return word
    else:
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _double_consonant(stem) and stem[-1] not in "lsz":
        return stem[:-1]
    if _measure(stem) == 1 and _short_end(stem):
        return stem + "e"
    return stem


def _replace(word: str, table: tuple[tuple[str, str], ...]) -> str:
    """The longest ending of the table that the word has decides, whether or not its condition holds."""
    found = max(
        (pair for pair in table if word.endswith(pair[0])), key=lambda pair: len(pair[0]), default=None
    )
    if found is None:
        return word
    stem = word[: -len(found[0])]
    return stem + found[1] if _measure(stem) > 0 else word


def _residue(word: str) -> str:
    found = max((ending for ending in _STEP_4 if word.endswith(ending)), key=len, default=None)
    if found is None:
        return word
    stem = word[: -len(found)]
    if _measure(stem) <= 1 or (found == "ion" and not stem.endswith(("s", "t"))):
        return word
    return stem


def _tidy(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short_end(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) <= 2:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return _tidy(_residue(_replace(_replace(word, _STEP_2), _STEP_3)))
