"""Renders a comparison as text: both answers, then a table of what differs.

On a terminal long cells fold to its width. In a pipe no line is folded, so that grep
sees a whole fact.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ncclforensics.report.text_layout import console_into, shorten

if TYPE_CHECKING:
    from ncclforensics.diff.model import Answer, Comparison, Told

UNBOUNDED = 100_000  # cells, for a pipe
MOST = 8  # rows of a topic that are shown unless all are asked for
QUOTE = 76
NOT_TOLD = "-"


def render(
    found: Comparison,
    *,
    width: int | None = None,
    colour: bool = False,
    verbose: bool = False,
) -> str:
    """Return the comparison as text; `verbose` shows all rows, each with its lines."""
    buffer = io.StringIO()
    cells = max(width, 60) if width else UNBOUNDED
    console = console_into(buffer, cells, colour=colour)
    for mark, answer in (("A", found.a), ("B", found.b)):
        console.print(_answer(mark, answer), soft_wrap=True)
    if found.differences:
        console.print(_table(found, verbose=verbose, folds=width is not None))
    for text in _rest(found):
        console.print(Text(text), soft_wrap=True)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def _answer(mark: str, answer: Answer) -> Text:
    """Return a side's name and the two lines that open its answer."""
    text = Text(f"{mark}  {answer.name}\n")
    text.append(f"   {answer.opening[0]}\n", "bold")
    return text.append(f"   {answer.opening[1]}")


def _table(found: Comparison, *, verbose: bool, folds: bool) -> Table:
    """Return a row for each difference, under its topic: name, A, B."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title, ratio in (("", 3), ("\nA", 4), ("\nB", 4)):
        table.add_column(title, overflow="fold", ratio=ratio if folds else None)
    for topic in dict.fromkeys(d.topic for d in found.differences):
        rows = [d for d in found.differences if d.topic == topic]
        shown = rows if verbose else rows[:MOST]
        table.add_row(Text(topic, "bold cyan"))
        for row in shown:
            cells = (f"  {row.name}", _cell(row.a, verbose), _cell(row.b, verbose))
            table.add_row(*map(Text, cells))
        if left := len(rows) - len(shown):
            table.add_row(Text(f"  and {left:,} more: -v"))
    return table


def _cell(told: Told | None, verbose: bool) -> str:
    """Return a value; below it the first line that tells it, if asked for."""
    if told is None:
        return NOT_TOLD
    if not verbose or told.evidence is None:
        return told.text
    cite = told.evidence
    quote = "" if cite.text in told.text else f"  {shorten(cite.text, QUOTE)}"
    return f"{told.text}  {cite.place}{quote}"


def _rest(found: Comparison) -> list[str]:
    """Return what is equal, and what could not be compared."""
    same = " · ".join(f"{s.topic} {s.facts:,}" for s in found.same)
    lines = ["", f"the same  {same or 'nothing'}"]
    for sides, who in ((("a",), "A"), (("b",), "B"), (("a", "b"), "both")):
        topics = ", ".join(u.topic for u in found.untold if u.sides == sides)
        lines += [f"unknown   of {who}: {topics}"] if topics else []
    return lines
