from hypothesis import given
from hypothesis import strategies as st

from tasks.terminal.sandbox.text import clean, joined


def test_terminal_sequences_are_removed_and_text_is_not():
    assert clean(b"\x1b[1;31mred\x1b[m \x1b]0;title\x07x\x1b(By\x1b7z\x1b[?25l") == "red xyz"
    assert clean(b"50% [done] ]0;not a title") == "50% [done] ]0;not a title"


def test_carriage_returns_and_nul_bytes_are_removed():
    assert clean(b"a\r\nb\0c\r") == "a\nbc"


def test_a_sequence_cut_by_the_limit_is_removed_too():
    assert joined(b"head\x1b[3", b"1mtail", 100) == "head\n[... 87 bytes left out ...]\n1mtail"


def test_a_whole_output_has_no_note():
    assert joined(b"abc", b"def", 6) == "abcdef"


@given(st.binary(max_size=200))
def test_any_bytes_become_text_without_control_of_the_terminal(data):
    text = clean(data)
    assert "\r" not in text
    assert "\0" not in text
    assert "\x1b[" not in text or b"\x1b" in data


@given(st.text(st.characters(exclude_characters="\r\0\x1b", exclude_categories=["Cs"]), max_size=100))
def test_plain_text_is_unchanged(text):
    assert clean(text.encode()) == text
