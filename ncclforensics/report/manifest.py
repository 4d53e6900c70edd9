"""The table of all files of the evidence: kind, reason, rank, host, and rows.

Columns are plain and aligned. On a terminal, long ones fold to its width; in a pipe no
line is truncated, so that grep and awk see full names. An unknown value is a dash.
"""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ncclforensics.report.coverage import was_read
from ncclforensics.report.folding import count
from ncclforensics.report.text_layout import console_into

if TYPE_CHECKING:
    from ncclforensics.report.contract import Note, Report, SourceFile

UNBOUNDED = 100_000  # cells, for a pipe


def render_manifest(
    report: Report, *, width: int | None = None, colour: bool = False
) -> str:
    """Return the table, a line of totals, and all notes.

    `width` is the width of the terminal in cells, None for a pipe.
    """
    table = Table(
        box=None, pad_edge=False, header_style="bold cyan", padding=(0, 2, 0, 0)
    )
    table.add_column("source", overflow="fold", ratio=3 if width else None)
    table.add_column("kind", no_wrap=True)
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("host", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=2 if width else None)
    for source in report.sources:
        style = "" if was_read(source) else "dim"
        table.add_row(*(Text(cell) for cell in _cells(source)), style=style)
    buffer = io.StringIO()
    cells = max(width, 80) if width else UNBOUNDED
    console = console_into(buffer, cells, colour=colour)
    if report.sources:
        console.print(table, soft_wrap=width is None)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    lines += ["", _totals(report)]
    if report.notes:
        lines += ["", f"{count(len(report.notes), 'note')}:"]
        lines += [f"  {_note(note)}" for note in report.notes]
    return "\n".join(lines).lstrip("\n") + "\n"


def _cells(source: SourceFile) -> list[str]:
    """Return the cells of one file."""
    known = (source.rank, source.host, source.rows)
    rank, host, rows = ("-" if value is None else str(value) for value in known)
    return [source.source, source.kind, rank, host, rows, source.why or "-"]


def _totals(report: Report) -> str:
    """Return the number of files, in total, per kind and without recognised content."""
    kinds = Counter(source.kind for source in report.sources)
    told = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
    unread = sum(not was_read(source) for source in report.sources)
    text = count(len(report.sources), "file") + (f": {told}" if told else "")
    return f"{text}; nothing was recognised in {unread:,} of them" if unread else text


def _note(note: Note) -> str:
    """Return a note, preceded by the place it is about."""
    where = f"{note.source or '-'}" + ("" if note.line is None else f":{note.line}")
    return f"{where}  {note.text} ({note.stage})"
