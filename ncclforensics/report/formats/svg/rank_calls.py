"""Draws the chart of ranks over calls: a shape and a letter for each state.

Cells of a row that have one state are one path, so a row costs a few bytes a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ncclforensics.model.folding import count, name_folded, some
from ncclforensics.report.formats.svg.elements import markup, path, picture, shape, text
from ncclforensics.report.timeline.states import (
    ABSENT,
    BLANK,
    DONE,
    LATE,
    MISMATCHED,
    STATES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from ncclforensics.report.rank_calls import RankCalls, Row

CELL, ROW = 17, 22
DIGIT, LETTER = 6.6, 7.4  # pixels of a character, of a bold one at most
NAME = 18  # characters of a set of ranks; longer ones become a count
LISTED = 3  # columns that are listed in words; more become a count


def rank_calls(told: RankCalls) -> Markup:
    """Draw a row for each set of ranks that look alike, a column for each call."""
    top = 14 + DIGIT * max(map(len, told.columns))
    left = 14 + LETTER * max(len(_name(row)) for row in told.rows)
    right = 14 + LETTER * max(len(_stand(row, told)) for row in told.rows)
    width = left + CELL * len(told.columns) + right
    height = ROW * len(told.rows)
    words = ". ".join(_words(row, told.columns) for row in told.rows)
    svg = picture(width, top + height + 4, "What each rank did in each call", words)
    for at, column in enumerate(told.columns):
        x = left + CELL * at
        label = text(svg, 0, 0, column, "now" if at == told.at else "dim")
        label.set("transform", f"translate({x + 12:g} {top - 6:g})rotate(-90)")
        if at == told.at:
            shape(svg, "rect", "failed", x=x - 1, y=top, width=CELL, height=height)
    for number, row in enumerate(told.rows):
        _row(svg, row, left, top + ROW * number, _stand(row, told))
    return markup(svg)


def legend(told: RankCalls) -> list[tuple[str, str, str]]:
    """Return the letter, word and meaning of each state that is drawn."""
    seen = sorted({state for row in told.rows for state in row.cells} - {BLANK})
    return [(STATES[s].char, STATES[s].word, STATES[s].meaning) for s in seen]


def _row(svg: ET.Element, row: Row, left: float, y: float, stand: str) -> None:
    """Draw the ranks, from `left` on the cells, and who they are and where."""
    kind = "now" if "culprit" in row.who else ""
    name = text(svg, left - 10, y + 15, _name(row), kind, "end")
    if len(row.ranks) > NAME:
        ET.SubElement(name, "title").text = f"ranks {some(row.ranks, 400)}"
    places: dict[int, list[float]] = {}
    for at, state in enumerate(row.cells):
        places.setdefault(state, []).append(left + CELL * at)
    for state in sorted(places.keys() - {BLANK}):
        starts = places[state]
        if state == DONE:
            path(svg, "done", "".join(f"M{x + 7:g} {y + 11:g}h0" for x in starts))
            continue
        # who is not named may lack the call as well, and is not drawn as a culprit
        own = " own" if state == ABSENT and kind else ""
        boxes = "".join(f"M{x + 1:g} {y + 3:g}h13v15h-13z" for x in starts)
        path(svg, f"cell {STATES[state].word}{own}", boxes)
        letters = STATES[state].char * len(starts)
        label = text(svg, 0, y + 15, letters, f"in{own}", "middle")
        label.set("x", " ".join(f"{x + 7.5:g}" for x in starts))
    text(svg, left + CELL * len(row.cells) + 10, y + 15, stand, kind or "dim")


def _stand(row: Row, told: RankCalls) -> str:
    """Return who the ranks are, and where they stand or what they did wrong."""
    state, stand = row.cells[told.at], row.stand
    if row.who and state in (LATE, MISMATCHED):
        stand = f"{STATES[state].word} in {told.columns[told.at]}"
    return ": ".join(part for part in (row.who, stand) if part)


def _name(row: Row) -> str:
    """Return the ranks of a row, or how many there are."""
    if len(row.ranks) > NAME:
        return count(row.many, "rank")
    return name_folded(row.ranks)


def _words(row: Row, columns: Sequence[str]) -> str:
    """Return a row as a sentence: "rank 6, culprit: done in 4 calls, absent in 5"."""
    places: dict[int, list[str]] = {}
    for column, state in zip(columns, row.cells, strict=True):
        places.setdefault(state, []).append(column)
    told = [
        f"{STATES[state].word} in "
        + (", ".join(names) if len(names) <= LISTED else count(len(names), "call"))
        for state, names in sorted(places.items())
        if state != BLANK
    ]
    who = f"{_name(row)}, {row.who}" if row.who else _name(row)
    return f"{who}: {', '.join(told)}"
