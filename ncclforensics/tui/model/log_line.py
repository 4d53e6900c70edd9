"""Which line of which log to open for a place in the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.tui.model.clock import timed
from ncclforensics.tui.model.details import cite

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.report.timeline.timeline import Timeline

Line = tuple[str, int]


def line_of(
    timeline: Timeline, row: int, col: int, logs: Collection[str]
) -> Line | None:
    """Return source and line of the log line, the exit or the call in a cell.

    For a call it is the last line that the rank printed before it made the call, or at
    all. Only the sources `logs` count. None if no log is known to be of this rank.
    """
    rank = timeline.ranks[row]
    at = cite(timeline, rank, col)
    if at is not None and at[0] in logs:
        return at
    return last_line(timeline, rank, logs, _made(timeline, row, col))


def last_line(
    timeline: Timeline, rank: int, logs: Collection[str], until: int | None = None
) -> Line | None:
    """Return the last known line of a rank, up to the time `until` (UTC ns) if given.

    Without such a time it is the end of that log, if no other rank writes to it.
    """
    events = timeline.frames["events"].drop_nulls(["rank", "line"])
    events = events.filter(pl.col("source").is_in(list(logs)))
    lines = events.filter(pl.col("rank") == rank)
    lines = lines.sort("t", "source", "line", nulls_last=False)
    early = lines.filter(pl.col("t").dt.epoch("ns") <= (until or 0))
    if early.height:
        return str(early["source"][-1]), int(early["line"][-1])
    files = timeline.frames["sources"]
    if lines.is_empty():
        own = files.filter(pl.col("rank") == rank, pl.col("source").is_in(list(logs)))
        return (str(own["source"][-1]), own["lines"][-1] or 1) if own.height else None
    name, line = str(lines["source"][-1]), int(lines["line"][-1])
    if events.filter(pl.col("source") == name)["rank"].n_unique() > 1:
        return name, line
    ends = files.filter(pl.col("source") == name)["lines"].drop_nulls()
    return name, max([line, *ends])


def _made(timeline: Timeline, row: int, col: int) -> int | None:
    """Return the time at which a rank made the call in a column, None if unknown."""
    if col >= timeline.columns.table.height:
        return None
    own = timed(timeline, row).filter(pl.col("col") == col)
    return int(own["t"][0]) if own.height else None
