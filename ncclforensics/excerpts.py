"""Reads the lines around what a report cites, out of the evidence.

Only text has lines to show: what a dump says stands in the cited text itself. Files are
read once, in blocks, so a gigabyte of log costs its reading and no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers.lines import blocks
from ncclforensics.report.clean import line
from ncclforensics.report.details import Excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.report.contract import Report
    from ncclforensics.sources import Source

CONTEXT = 3  # lines before and after a cited one
MOST = 60  # cited lines of a report that are shown with what is around them
MOST_OTHERS = 3  # of each finding that is not the verdict
WIDTH = 400  # characters of a line
KINDS = frozenset({"log", "error_json"})


def cited(report: Report) -> dict[str, list[int]]:
    """Return the lines to show, by file: the verdict's first, then some of the others'.

    At most MOST lines in all.
    """
    found: dict[tuple[str, int], None] = {}
    verdict = () if report.verdict is None else report.verdict.evidence
    others = [cite for f in report.findings for cite in f.evidence[:MOST_OTHERS]]
    for cite in (*verdict, *others):
        if cite.line is not None and len(found) < MOST:
            found[cite.source, cite.line] = None
    lines: dict[str, list[int]] = {}
    for source, number in found:
        lines.setdefault(source, []).append(number)
    return lines


def read(report: Report, sources: Iterable[Source]) -> tuple[Excerpt, ...]:
    """Return the excerpts of a report, in the order in which it cites the files.

    A file that cannot be read any more gives none; nothing raises.
    """
    files = {source.name: source for source in sources if source.kind in KINDS}
    excerpts: list[Excerpt] = []
    for name, numbers in cited(report).items():
        if name in files:
            excerpts += _of_file(files[name], sorted(numbers))
    return tuple(excerpts)


def _of_file(source: Source, numbers: Sequence[int]) -> list[Excerpt]:
    """Return the excerpts of one file; cited lines that are near share one."""
    wanted: list[tuple[int, int, list[int]]] = []
    for number in numbers:
        first, last = max(number - CONTEXT, 1), number + CONTEXT
        if wanted and first <= wanted[-1][1] + 1:
            wanted[-1] = (wanted[-1][0], last, [*wanted[-1][2], number])
        else:
            wanted.append((first, last, [number]))
    text: dict[int, str] = {}
    try:
        with source.open() as stream:
            for block in blocks(stream):
                here = pl.any_horizontal(
                    pl.col("line").is_between(first, last) for first, last, _ in wanted
                )
                for number, raw in block.lines.filter(here).iter_rows():
                    text.setdefault(number, raw)
                if block.lines.height and block.lines["line"][-1] > wanted[-1][1]:
                    break
    except (OSError, EOFError):
        pass
    return [
        Excerpt(source.name, first, tuple(lines), tuple(own))
        for first, last, own in wanted
        if (lines := [_shown(text[n]) for n in range(first, last + 1) if n in text])
    ]


def _shown(raw: str) -> str:
    """Return a line cleaned and cut, with the spaces that it starts with."""
    head = raw[:WIDTH].expandtabs(4)
    indent = min(len(head) - len(head.lstrip(" ")), 40)
    return " " * indent + line(raw, WIDTH)
