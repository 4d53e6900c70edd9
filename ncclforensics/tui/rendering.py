"""Renders labels and cells to Textual strips."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from ncclforensics.report.text_layout import shorten
from ncclforensics.report.timeline.states import STATES, occurring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.tui.model.view import Label

NORMAL, DIM, BOLD = Style(), Style(dim=True), Style(bold=True)
CURSOR = Style(reverse=True, bold=True)
SUSPECTED = Style(color="yellow", italic=True)
SUSPECTED_PLAIN = Style(italic=True)
STYLES = tuple(Style.parse(state.style or "none") for state in STATES)
# without colour: only attributes, because grey levels are hard to distinguish
PLAIN = tuple(Style(bold=style.bold, dim=style.dim) for style in STYLES)
BAR = "│"
TAIL = 48  # cells after the last column, for the call that a rank waits in


def fit(text: str, width: int) -> str:
    """Pad or truncate text to exactly `width` terminal cells, with … if truncated."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def gutter(texts: Sequence[str], widths: Sequence[int]) -> str:
    """Return the text in front of the cells: ranks, host or group, outcomes."""
    return " ".join(map(fit, texts, widths)) + f" {BAR}"


def legend(rows: Iterable[bytes], *, plain: bool) -> Text:
    """Return the states that occur in rows of cells, as one line."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for state in occurring(rows):
        style = (PLAIN if plain else STYLES)[STATES.index(state)]
        text.append(state.char, style).append(f" {state.word}  ")
    return text


def head(label: str, text: str, width: int, style: Style) -> Strip:
    """Return a line above the cells."""
    return Strip([Segment(label, DIM), Segment(fit(text, width), style)])


def line(
    label: Label,
    cells: bytes,
    *,
    widths: Sequence[int],
    wide: int,
    room: int,
    cursor: int | None,
    chosen: bool,
    plain: bool,
) -> Strip:
    """Return a line: label, the visible cells, and the call that the rank waits in.

    `cursor` is the cell under the cursor, `chosen` whether this is the cursor's line,
    `room` the characters available for cells and the text after them; `plain` is
    without colour. Labels and texts of suspects have a different style.
    """
    suspected = SUSPECTED_PLAIN if plain else SUSPECTED
    style = suspected if label.is_suspected else NORMAL
    segments = [
        Segment(
            gutter(label.before, widths),
            style + BOLD if chosen else style,
        )
    ]
    at = 0
    for state, run in groupby(cells):
        count = len(list(run))
        style = (PLAIN if plain else STYLES)[state]
        char = STATES[state].char
        segments += _run(char, style, at, count, wide, cursor if chosen else None)
        at += count
    used = at * wide
    if room - used > 12 and label.stand:
        fits = cell_len(label.stand) + 2 <= room - used
        told = f"  {shorten(label.stand if fits else label.brief, room - used - 2)}"
        segments.append(Segment(told, suspected if label.is_suspected else DIM))
    return Strip(segments).adjust_cell_length(sum(widths) + len(widths) + 1 + room)


def _run(
    letter: str, style: Style, at: int, count: int, wide: int, cursor: int | None
) -> list[Segment]:
    """Return cells of one state, with a separate segment under the cursor."""
    text = letter.ljust(wide)
    if cursor is None or not at <= cursor < at + count:
        return [Segment(text * count, style)]
    # only the character is marked, not the padding after it
    char = Segment(text[0] if text[0] != " " else "_", CURSOR)
    return [
        Segment(text * (cursor - at), style),
        char,
        Segment(text[1:], NORMAL),
        Segment(text * (at + count - cursor - 1), style),
    ]
