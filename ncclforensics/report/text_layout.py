"""Lines of the text answer: a column of labels, wrapped words, colour.

Widths are in terminal cells, so that columns stay aligned with wide characters. Words
are never broken: a path or command longer than the line stays whole, to be pasted.
Colour is applied by rich and never carries information that the words lack.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ncclforensics.report.sanitize import ELLIPSIS, untorn

if TYPE_CHECKING:
    from collections.abc import Iterable

LABEL = 9


@dataclass(frozen=True, slots=True)
class Row:
    """One printed line: a label (may be empty), its text, and the text's rich style."""

    label: str
    text: str
    style: str = ""


def wrap(text: str, width: int, *, hang: int = 0) -> list[str]:
    """Wrap `text` at spaces to `width` cells; `hang` indents all lines but the first.

    Newlines in `text` are kept. An empty text yields no lines.
    """
    lines: list[str] = []
    for paragraph in text.splitlines():
        current = ""
        for word in paragraph.split():
            if current and cell_len(current) + 1 + cell_len(word) > width:
                lines.append(current)
                current = " " * hang + word
            else:
                current = f"{current} {word}" if current else word
        lines.append(current)
    return lines


def fold(text: str, width: int, most: int) -> list[str]:
    """Wrap `text` to `width` cells, at a space if one is near, else anywhere.

    No text is lost, unless it takes more than `most` lines: the last one ends with ….
    """
    lines: list[str] = []
    rest = text
    while cell_len(rest) > width:
        if len(lines) + 1 == most:
            return [*lines, shorten(rest, width)]
        cells = list(accumulate(cell_len(letter) for letter in rest[: width + 1]))
        size = max(bisect_right(cells, width), 1)
        space = rest.rfind(" ", width // 2, size)
        size = space if space > 0 else size
        lines.append(rest[:size])
        rest = rest[size:].lstrip(" ")
    return [*lines, rest]


def shorten(text: str, width: int) -> str:
    """Truncate `text` to `width` cells at a word, ending with … where it was cut."""
    if cell_len(text) <= width:
        return text
    return untorn(set_cell_size(text, width - 1), text) + ELLIPSIS


def labelled(label: str, lines: Iterable[str], style: str = "") -> list[Row]:
    """Return rows with `label` in front of the first of `lines`, "" for the others."""
    return [Row("" if i else label, text, style) for i, text in enumerate(lines)]


def two_ends(left: str, right: str, width: int) -> str:
    """Return a line of `width` cells with `left` at its start, `right` at its end."""
    left = shorten(left, width - cell_len(right) - 1)
    return left + " " * (width - cell_len(left) - cell_len(right)) + right


def console_into(buffer: io.StringIO, width: int, *, colour: bool) -> Console:
    """Return a console of `width` cells that writes to `buffer`."""
    return Console(
        file=buffer,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,  # a notebook would show the lines and leave buffer empty
        width=width,
    )


def paint(rows: Iterable[Row], *, colour: bool = False, indent: int = 0) -> str:
    """Return the rows as text, with labels in a column of `indent` cells."""
    buffer = io.StringIO()
    console = console_into(buffer, 1000, colour=colour)
    for row in rows:
        text = Text()
        text.append(f"{row.label:<{indent}}", "bold cyan" if row.label else None)
        text.append(row.text, row.style or None)
        console.print(text, soft_wrap=True)
    lines = buffer.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)
