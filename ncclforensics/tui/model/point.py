"""From a cell to the column it is about, and from a column to its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.tui.model.axis import EXIT
from ncclforensics.tui.model.clock import timed
from ncclforensics.tui.model.opening import worst
from ncclforensics.tui.model.scale import BySequence
from ncclforensics.tui.model.states import ABSENT, EXITED, LOGGED

if TYPE_CHECKING:
    from ncclforensics.tui.model.clock import Clock
    from ncclforensics.tui.model.timeline import Timeline
    from ncclforensics.tui.model.view import View


def column(view: View, row: int, line: int, cell: int) -> int:
    """Return the column that a cell is about: of several calls the worst."""
    timeline, scale = view.timeline, view.scale
    if isinstance(scale, BySequence):
        cells = timeline.cells(row)
        return max(scale.columns(cell), key=lambda col: cells[col])
    code = max(view.cells([line], cell, 1)[0], default=0)
    begin = scale.time(cell)
    if code == ABSENT:
        return worst(timeline, row)
    end = timeline.columns.kind(EXIT)
    if code == EXITED and end is not None:
        return end.first
    if code == LOGGED:
        return _logged(timeline, row, begin, begin + scale.bucket)
    calls = timed(timeline, row).filter(pl.col("t") < begin + scale.bucket)
    if calls.is_empty():
        return timeline.columns.merged[0]
    here = calls.filter((pl.col("t") >= begin) & (pl.col("code") == code))
    return int((here if here.height else calls)["col"][-1])


def _logged(timeline: Timeline, row: int, begin: int, end: int) -> int:
    t = pl.col("t").dt.epoch("ns")
    rank = timeline.ranks[row]
    said = timeline.marks.filter((pl.col("rank") == rank) & (t >= begin) & (t < end))
    for message in said["message"]:
        if message in timeline.columns.messages:
            first = timeline.columns.table.height
            return first + timeline.columns.messages.index(message)
    return worst(timeline, row)


def time_of(timeline: Timeline, clock: Clock, row: int, col: int) -> int:
    """Return the time of a column on a row: its call's, its mark's, or the nearest."""
    calls = timed(timeline, row)
    own = calls.filter(pl.col("col") == col)
    if own.height:
        return int(own["t"][0])
    marks = clock.marks.filter(pl.col("rank") == timeline.ranks[row])
    if col >= timeline.columns.table.height:
        marks = marks.filter(pl.col("code").is_in([LOGGED, EXITED]))
    if marks.height:
        return int(marks["t"][0])
    return int(calls["t"][-1]) if calls.height else clock.first
