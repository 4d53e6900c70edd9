"""Where the timeline opens: the culprit at the failing call, else the first failure.

If the outcome is not a failure, it opens on the first suspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report import suspect_phrases
from ncclforensics.report.contract import Collective
from ncclforensics.report.timeline import naming

if TYPE_CHECKING:
    from ncclforensics.report.contract import Report, Suspect, Verdict
    from ncclforensics.report.timeline.timeline import Timeline

Place = tuple[int, int]


def opening_place(timeline: Timeline, report: Report) -> Place | None:
    """Return the row and column to open on, or None if there is nothing to draw."""
    if timeline.is_empty:
        return None
    if suspect_phrases.comes_first(report):
        for suspect in report.suspects:
            at = suspected_place(timeline, suspect)
            if at is not None:
                return at
    for finding in (report.verdict, *report.findings):
        found = None if finding is None else place_of(timeline, finding)
        if found is not None:
            return found
    return first_failure(timeline) or (0, timeline.columns.merged[-1])


def place_of(timeline: Timeline, finding: Verdict) -> Place | None:
    """Return the row and column that a finding is about, None if it names no rank."""
    row = _row(timeline, finding)
    if row is None:
        return None
    col = column_of(timeline, timeline.ranks[row], finding.collective)
    if col is not None:
        return row, col
    for cite in finding.evidence:
        col = cited(timeline, timeline.ranks[row], cite.source, cite.line)
        if col is not None:
            return row, col
    return row, worst(timeline, row)


def suspected_place(timeline: Timeline, suspect: Suspect) -> Place | None:
    """Return the row of a suspect, and the column of the call that others wait in.

    None if the timeline does not have that rank.
    """
    row = timeline.row_of(suspect.rank)
    if row is None:
        return None
    for call in timeline.frames["calls"].iter_rows(named=True):
        waited = (call["unstarted"], call["absent"], call["behind"], call["unseen"])
        if call["waiting"] and any(suspect.rank in (side or ()) for side in waited):
            asked = Collective(call["pg"], call["pg_desc"], call["seq"], None, None)
            col = column_of(timeline, suspect.rank, asked)
            if col is not None:
                return row, col
    for cite in suspect.evidence:
        col = cited(timeline, suspect.rank, cite.source, cite.line)
        if col is not None:
            return row, col
    return row, worst(timeline, row)


def _row(timeline: Timeline, finding: Verdict) -> int | None:
    for rank in finding.culprits.ranks:
        row = timeline.row_of(rank)
        if row is not None:
            return row
    of_host = timeline.rows.filter(pl.col("host").is_in(finding.culprits.hosts))
    if of_host.height:
        return int(of_host["row"][0])
    sources = timeline.frames["sources"].drop_nulls("rank")
    for cite in finding.evidence:
        spoke = sources.filter(pl.col("source") == cite.source)["rank"]
        if spoke.len() and (row := timeline.row_of(spoke[0])) is not None:
            return row
    return None


def column_of(timeline: Timeline, rank: int, call: Collective | None) -> int | None:
    """Return the column of a call on a rank, or None."""
    if call is None or call.seq is None:
        return None
    groups = timeline.groups.filter(pl.col("pg") == (call.process_group or ""))
    if call.process_group_desc:
        exact = groups.filter(pl.col("pg_desc") == call.process_group_desc)
        groups = exact if exact.height else groups
    own = groups.filter(pl.col("rank") == rank)
    for kind in (
        (own if own.height else groups).sort("p2p")["kind"].unique(maintain_order=True)
    ):
        col = timeline.columns.find(kind, call.seq)
        if col is not None:
            return col
    return None


def cited(timeline: Timeline, rank: int, source: str, line: int | None) -> int | None:
    """Return the column of a rank's cited entry or log line, or None."""
    at = (
        (pl.col("source") == source)
        & (pl.col("line") == line)
        & (pl.col("rank") == rank)
    )
    marks = timeline.marks.filter(at).drop_nulls("col")
    if marks.height:
        return int(marks["col"][0])
    calls = timeline.calls.filter(at).select("rank", *naming.keyed()).collect()
    found = calls.join(timeline.groups, on=["rank", *naming.KEY]).join(
        timeline.columns.table, on=["kind", "n"]
    )
    return int(found["col"][0]) if found.height else None


def worst(timeline: Timeline, row: int, kind: str | None = None) -> int:
    """Return the first column with the worst state of a row.

    With `kind`, only columns of that kind of calls and of marks are considered.
    """
    cells = timeline.cells(row)
    columns = timeline.axis(kind)
    first = max(columns, key=lambda col: cells[col])
    return first if cells[first] > 1 else columns[-1]


def first_failure(timeline: Timeline) -> Place | None:
    """Return the first row that waits or failed, and its worst column, or None."""
    ranks = timeline.frames["calls"]["waiting"].explode(empty_as_null=False)
    failed = [*ranks.sort().head(1), *timeline.exits["rank"].sort().head(1)]
    for rank in failed:
        row = timeline.row_of(rank)
        if row is not None:
            return row, worst(timeline, row)
    return None
