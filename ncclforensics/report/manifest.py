"""The table of all files of the evidence: kind, ranks, hosts, rows, times, dialect.

Files that differ in one number are one row, unless all are asked for. A pipe gets one
aligned line per row that is never truncated, so that grep and awk see full names; a
terminal gets the name, and below it the rest, wrapped. An unknown value is a dash.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from ncclforensics.model.folding import (
    count,
    fold_hosts,
    fold_names,
    fold_ranks,
    name_folded,
    natural,
    unfold_ranks,
)
from ncclforensics.model.words import lasted
from ncclforensics.report.coverage import was_read
from ncclforensics.report.text_layout import Row, fold, paint, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.contract import Note, Report, SourceFile

HEADINGS = ("source", "kind", "ranks", "hosts", "rows", "first", "lasts", "dialect")
NUMERIC = ("ranks", "rows")
INDENT = 2
NO_BREAK = "\ue000"  # stands for a space at which no line ends: a private character
MOST_LINES = 100  # of a name on a terminal


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one kind under one, possibly folded, name."""

    name: str
    files: Sequence[SourceFile]

    def cells(self) -> dict[str, str]:
        """Return a cell for each heading; "" is unknown."""
        one = self.files[0]
        ranks = {r for f in self.files for r in _ranks(f)}
        hosts = set(chain.from_iterable(_hosts(f) for f in self.files))
        rows = [f.rows for f in self.files if f.rows is not None]
        first = min((f.first for f in self.files if f.first), default="")
        last = max((f.last for f in self.files if f.last), default="")
        known = (
            *(self.name, one.kind, fold_ranks(ranks), fold_hosts(hosts)),
            f"{sum(rows):,}" if rows else "",
            f"{first[:19]}Z" if first else "",
            lasted(_seconds(first, last)) if first else "",
            ", ".join(one.dialects) or one.why,
        )
        return dict(zip(HEADINGS, known, strict=True))


def render_manifest(
    report: Report,
    *,
    width: int | None = None,
    colour: bool = False,
    whole: bool = False,
) -> str:
    """Return the table, a line of totals, and all notes.

    `width` is the width of the terminal in cells, None for a pipe; `whole` gives every
    file a row of its own.
    """
    rows = _files(report.sources, whole=whole)
    lines = _table(rows) if width is None else _blocks(rows, max(width, 60))
    lines += [Row("", ""), Row("", _totals(report))]
    if report.notes:
        lines += [Row("", ""), Row("", f"{count(len(report.notes), 'note')}:")]
        room = None if width is None else max(width, 60) - 2 * INDENT
        for note in report.notes:
            text = _note(note)
            parts = [text] if room is None else wrap(text, room, hang=INDENT)
            lines += [Row("", " " * INDENT + part) for part in parts]
    return paint(lines, colour=colour).strip("\n") + "\n"


def _files(sources: Sequence[SourceFile], *, whole: bool) -> list[Files]:
    """Return the rows by name: one per file, or per run of alike ones."""
    if whole:
        return [Files(source.source, [source]) for source in sources]
    alike: dict[tuple[str, tuple[str, ...]], dict[str, SourceFile]] = {}
    for source in sources:
        key = (source.kind, tuple(sorted(source.dialects)))
        alike.setdefault(key, {})[source.source] = source
    rows = [
        Files(name, [files[member] for member in members])
        for files in alike.values()
        for name, members in fold_names(files).items()
    ]
    return sorted(rows, key=lambda row: natural(row.files[0].source))


def _table(rows: Sequence[Files]) -> list[Row]:
    """Return one aligned line per row, for a pipe."""
    if not rows:
        return []
    cells = [[cell or "-" for cell in row.cells().values()] for row in rows]
    table = [list(HEADINGS), *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        Row(
            "",
            "  ".join(
                f"{cell:>{w}}" if heading in NUMERIC else f"{cell:<{w}}"
                for cell, w, heading in zip(line, widths, HEADINGS, strict=True)
            ).rstrip(),
        )
        for line in table
    ]


def _blocks(rows: Sequence[Files], width: int) -> list[Row]:
    """Return the name of each row and, below it, what is known, for a terminal."""
    lines = []
    for row in rows:
        told = row.cells()
        style = "bold" if was_read(row.files[0]) else "dim"
        lines += [Row("", part, style) for part in fold(row.name, width, MOST_LINES)]
        many = count(len(row.files), "file") if len(row.files) > 1 else ""
        ranks, hosts = told["ranks"], told["hosts"]
        whose = name_folded(ranks) if ranks else ""
        whose += (" on " if ranks else "") + hosts if hosts else ""
        read = f"{told['rows']} {'row' if told['rows'] == '1' else 'rows'}"
        when = f"{told['first']} for {told['lasts']}" if told["first"] else ""
        read = read if told["rows"] else ""
        known = (many, told["kind"], told["dialect"], whose, read, when)
        parts = [part.replace(" ", NO_BREAK) for part in known if part]
        for part in wrap(f"{NO_BREAK}· ".join(parts), width - INDENT):
            lines.append(Row("", " " * INDENT + part.replace(NO_BREAK, " ")))
    return lines


def _ranks(file: SourceFile) -> frozenset[int]:
    told = unfold_ranks(file.ranks) if file.ranks else frozenset[int]()
    return told if file.rank is None else told | {file.rank}


def _hosts(file: SourceFile) -> tuple[str, ...]:
    return file.hosts if file.hosts or file.host is None else (file.host,)


def _seconds(first: str, last: str) -> float:
    """Return the seconds between two times as in the contract."""
    start, end = (datetime.fromisoformat(t) for t in (first, last))
    return (end - start).total_seconds()


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
