"""Reads the lines around a report's citations from the evidence.

The culprit's last own line comes first, with more around it. Where a rank is accused,
what the logs of other ranks say is left out: those waited.

Only text files have lines to show; a citation of a dump already contains its text.
Files are read once, in blocks, so a gigabyte of log takes time but no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers.logs.lines import blocks
from ncclforensics.report.details import Excerpt
from ncclforensics.report.sanitize import ELLIPSIS, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report
    from ncclforensics.sources import Source

CONTEXT = 3  # lines before and after a cited one
AROUND = 5  # lines before and after the culprit's last one
REACH = 40  # lines after a cited one that are searched for the cited text
HEAD = 60  # leading characters of the cited text that are searched for
SEARCHED = 4000  # characters of a line that are searched
MOST = 60  # cited lines of a report that are shown with context
MOST_OTHERS = 3  # per finding or suspect, other than the verdict
WIDTH = 400  # characters of a line that are shown
KINDS = frozenset({"log", "error_json"})
Cited = tuple[int, str]  # line number, cited text


def cited(report: Report, frames: Frames) -> dict[str, list[Cited]]:
    """Return the cited lines to show, by file: at most MOST in total.

    The culprit's last line comes first, then all of the verdict, then MOST_OTHERS per
    suspect and per finding. Lines in the logs of ranks that are not accused are left
    out, unless there are no others.
    """
    found: dict[tuple[str, int], str] = {}
    last = report.last_line
    verdict = () if report.verdict is None else report.verdict.evidence
    told = [s.evidence for s in report.suspects] + [f.evidence for f in report.findings]
    others = [cite for cites in told for cite in cites[:MOST_OTHERS]]
    cites = (*(() if last is None else (last,)), *verdict, *others)
    foreign = _of_others(report, frames)
    theirs = [cite for cite in cites if cite.source not in foreign]
    for cite in theirs or cites:
        if cite.line is not None and len(found) < MOST:
            found.setdefault((cite.source, cite.line), cite.text)
    lines: dict[str, list[Cited]] = {}
    for (source, number), text in found.items():
        lines.setdefault(source, []).append((number, text))
    return lines


def _of_others(report: Report, frames: Frames) -> frozenset[str]:
    """Return the files of one rank each that is not accused; none if no rank is."""
    named = set() if report.verdict is None else set(report.verdict.culprits.ranks)
    if not named or report.outcome != "failure":
        return frozenset()
    also = (f.culprits.ranks for f in report.findings if f.role == "root")
    named.update(rank for ranks in also for rank in ranks)
    alone = frames.writers().unique("source", keep="none")
    return frozenset(alone.filter(~pl.col("rank").is_in(sorted(named)))["source"])


def read(
    report: Report, sources: Iterable[Source], frames: Frames
) -> tuple[Excerpt, ...]:
    """Return the excerpts of a report, in the order in which it cites the files.

    Never raises: a file that can no longer be read yields no excerpt.
    """
    files = {source.name: source for source in sources if source.kind in KINDS}
    excerpts: list[Excerpt] = []
    last = report.last_line
    for name, cites in cited(report, frames).items():
        if name in files:
            wide = last.line if last is not None and last.source == name else None
            excerpts += _of_file(files[name], sorted(cites), wide)
    place = None if last is None else (last.source, last.line)
    # stable: the others stay in order
    return tuple(
        sorted(
            excerpts, key=lambda e: place not in [(e.source, line) for line in e.cited]
        )
    )


def _of_file(source: Source, cites: Sequence[Cited], wide: int | None) -> list[Excerpt]:
    """Return the excerpts of one file; nearby cited lines share one.

    The line `wide` has AROUND lines on both sides, the others CONTEXT.
    """
    text = _lines(source, [number for number, _ in cites])
    spans: list[tuple[int, int, list[int]]] = []
    for number, told in cites:
        said = _said(text, number, told)
        reach = AROUND if number == wide else CONTEXT
        first, last = max(number - reach, 1), max(number + reach, said)
        own = sorted({number, said})
        if spans and first <= spans[-1][1] + 1:
            start, end, before = spans[-1]
            spans[-1] = (min(start, first), max(end, last), sorted({*before, *own}))
        else:
            spans.append((first, last, own))
    return [
        Excerpt(source.name, first, tuple(lines), tuple(own))
        for first, last, own in spans
        if (lines := [_shown(text[n]) for n in range(first, last + 1) if n in text])
    ]


def _lines(source: Source, numbers: Sequence[int]) -> dict[int, str]:
    """Return the lines around `numbers`, by line number, as far as readable."""
    text: dict[int, str] = {}
    try:
        with source.open() as stream:
            for block in blocks(stream):
                for number in numbers:
                    row = number - block.first
                    if -REACH <= row < block.count + AROUND:
                        near = block.rows(row - AROUND, row + REACH + 1)
                        text |= dict(near.iter_rows())
                if block.first + block.count > numbers[-1] + REACH + 1:
                    break
    except (OSError, EOFError):
        pass
    return text


def _said(text: Mapping[int, str], number: int, told: str) -> int:
    """Return the line that contains the cited text, e.g. the end of a traceback."""
    head = told.rstrip(ELLIPSIS)[:HEAD]
    reached = range(number, number + REACH + 1)
    if not head:
        return number
    return next(
        (n for n in reached if n in text and head in line(text[n], SEARCHED)),
        number,
    )


def _shown(raw: str) -> str:
    """Return a line sanitized and truncated, with its indentation."""
    head = raw[:WIDTH].expandtabs(4)
    indent = min(len(head) - len(head.lstrip(" ")), 40)
    return " " * indent + line(raw, WIDTH)
