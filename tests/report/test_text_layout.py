"""Lines keep to their width in terminal cells, and lose nothing silently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ncclforensics.report.text_layout import (
    Row,
    fold,
    labelled,
    paint,
    shorten,
    two_ends,
    wrap,
)

WORDS = st.text("ab 大\u0301-", max_size=200)


def test_wrap_breaks_at_spaces_and_never_inside_a_word() -> None:
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("see /a/very/long/path:12 now", 8) == [
        "see",
        "/a/very/long/path:12",
        "now",
    ]
    assert wrap("one two three", 7, hang=2) == ["one two", "  three"]
    assert wrap("one\n\ntwo", 7) == ["one", "", "two"]
    assert wrap("", 7) == []


@given(WORDS, st.integers(2, 30))
def test_folded_lines_fit_and_keep_every_letter(text: str, width: int) -> None:
    lines = fold(text, width, 10_000)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_fold_prefers_a_space_and_says_where_it_stops() -> None:
    assert fold("Watchdog caught a timeout", 11, 9) == [
        "Watchdog",
        "caught a",
        "timeout",
    ]
    assert fold("x" * 30, 10, 2) == ["x" * 10, "x" * 9 + "…"]


@given(WORDS, st.integers(2, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert cell_len(shorten(text, width)) <= width


def test_two_ends_fill_the_line() -> None:
    assert two_ends("left", "right", 12) == "left   right"
    assert two_ends("left is long", "right", 12) == "left…  right"


def test_labels_stand_before_the_first_line_only() -> None:
    rows = labelled("why", ["one", "two"])
    assert paint(rows, indent=9) == "why      one\n         two\n"


def test_markup_in_text_is_text_and_colour_is_only_colour() -> None:
    rows = [Row("", "[bold]x[/bold] :smile: https://a", "bold red")]
    assert paint(rows) == "[bold]x[/bold] :smile: https://a\n"
    coloured = paint(rows, colour=True)
    assert coloured == "\x1b[1;31m[bold]x[/bold] :smile: https://a\x1b[0m\n"
