"""Nothing in a log can do anything to what prints it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclforensics.report.sanitize import cut, line, paragraphs

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mrank 3\x1b[0m", "rank 3"),
        ("\x9b31mrank 3", "rank 3"),
        ("\x1b]0;own the title\x07rank 3", "rank 3"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;unterminated rank 3", "0;unterminated rank 3"),
        ("\x1bPq#0\x1b\\rank 3\x1bc", "rank 3"),
        ("10%\r20%\r30%", "10% 20% 30%"),
        ("a\tb\x00c\x08\x7f", "a bc"),
        ("rank \u202e716\u202c", "rank 716"),
        ("two\u2028lines\nthree", "two lines three"),
        ("bad \udcff byte", "bad \ufffd byte"),
        ("größe 大小 ✓", "größe 大小 ✓"),
    ],
)
def test_line_keeps_the_words_and_drops_what_acts(raw: str, shown: str) -> None:
    assert line(raw, 100) == shown


@given(ANY_TEXT, st.integers(2, 50))
def test_line_is_one_printable_line_within_its_limit(raw: str, limit: int) -> None:
    shown = line(raw, limit)
    assert len(shown) <= limit
    assert not any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in shown)
    shown.encode()


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing(raw: str) -> None:
    assert line(line(raw, 100), 100) == line(raw, 100)


def test_a_long_line_says_that_it_was_cut() -> None:
    assert line("x" * 500, 10) == "x" * 9 + "…"
    assert line("\x1b[0m" * 100_000_0 + "tail", 10) == "…"


def test_paragraphs_keep_newlines_only() -> None:
    assert paragraphs("one\n\ntwo\x1b[2J\r\n", 100) == "one\n\ntwo"


def test_cut_leaves_what_fits() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("rank 3 is running a collective", 24, "rank 3 is running a…"),
        ("rank 3 is running a collective", 20, "rank 3 is running a…"),
        # most of a long word is better than nothing
        ("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:553]", 30, None),
    ],
)
def test_a_text_is_cut_at_a_word_if_little_is_lost(text, limit, shown):
    assert cut(text, limit) == (shown or f"{text[: limit - 1]}…")
