"""Maps a cell to its column, and a column to its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline.start_position import worst
from ncclforensics.report.timeline.states import ABSENT, EXITED, LOGGED
from ncclforensics.tui.model.clock import timed
from ncclforensics.tui.model.scale import BySequence

if TYPE_CHECKING:
    from ncclforensics.report.timeline.timeline import Timeline
    from ncclforensics.tui.model.clock import Clock
    from ncclforensics.tui.model.view import View


def column(view: View, row: int, line: int, cell: int) -> int:
    """Return the column of a cell; if it has several, the one with the worst state."""
    timeline, scale = view.timeline, view.scale
    if isinstance(scale, BySequence):
        cells = timeline.cells(row)
        return max(scale.columns(cell), key=lambda col: cells[col])
    code = max(view.cells([line], cell, 1)[0], default=0)
    begin = scale.time(cell)
    if code == ABSENT:
        return worst(timeline, row)
    if code in (LOGGED, EXITED):
        rows = timeline.exits if code == EXITED else timeline.marks
        return _marked(timeline, rows, row, (begin, begin + scale.bucket))
    calls = timed(timeline, row).filter(pl.col("t") < begin + scale.bucket)
    if calls.is_empty():
        return timeline.columns.merged[0]
    here = calls.filter((pl.col("t") >= begin) & (pl.col("code") == code))
    return int((here if here.height else calls)["col"][-1])


def _marked(
    timeline: Timeline, rows: pl.DataFrame, row: int, span: tuple[int, int]
) -> int:
    """Return the column of the first mark of a row in a time span."""
    t = pl.col("t").dt.epoch("ns")
    here = (pl.col("rank") == timeline.ranks[row]) & t.is_between(*span, closed="left")
    found = rows.filter(here).drop_nulls("col")
    return int(found["col"][0]) if found.height else worst(timeline, row)


def time_of(timeline: Timeline, clock: Clock, row: int, col: int) -> int:
    """Return the time of a column in a row: of its call, its mark, or the nearest."""
    calls = timed(timeline, row)
    own = calls.filter(pl.col("col") == col)
    if own.height:
        return int(own["t"][0])
    here = pl.col("rank") == timeline.ranks[row]
    for rows in (timeline.marks, timeline.exits):
        own = rows.filter(here, pl.col("col") == col).drop_nulls("t")
        if own.height:
            return int(own["t"].dt.epoch("ns")[0])
    marks = clock.marks.filter(here)
    if marks.height:
        return int(marks["t"][0])
    return int(calls["t"][-1]) if calls.height else clock.first
