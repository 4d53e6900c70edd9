"""Lines over time: what the visible ranks did in each bucket of the window.

A finished call extends from its creation to its end (or is a point, if its end is
unknown), an unfinished one to the end of its process or of the evidence. A rank that
never made a call is absent from the time when its peers entered it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline import naming
from ncclforensics.report.timeline.first_pass import SLAB
from ncclforensics.report.timeline.known_cells import held
from ncclforensics.report.timeline.states import ABSENT, EXITED, LOGGED, RUNNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.report.timeline.timeline import Timeline

SECOND = 1_000_000_000
PARTS = {"t": pl.Int64(), "te": pl.Int64(), "code": pl.UInt8()}


@dataclass(frozen=True, slots=True)
class Clock:
    """The span of all times in UTC nanoseconds, and what is drawn besides calls.

    `marks` has `rank t te code`: log lines, exits, absence. `ends` maps a rank to the
    time when its process ended.
    """

    first: int
    last: int
    marks: pl.DataFrame
    ends: dict[int, int]

    def paint(
        self,
        timeline: Timeline,
        rows: Sequence[int],
        begin: int,
        bucket: int,
        width: int,
    ) -> list[bytes]:
        """Return `width` cells of `bucket` ns each, from time `begin`, per row."""
        parts = [self._calls(timeline, row, line) for line, row in enumerate(rows)]
        ranks = [timeline.ranks[row] for row in rows]
        lines = pl.DataFrame({"rank": ranks, "line": range(len(ranks))})
        marks = self.marks.join(lines, on="rank").select("line", *PARTS)
        # a mark is a point in time, so it is drawn over the calls
        drawn = pl.concat([*parts, marks]).filter(
            (pl.col("te") >= begin) & (pl.col("t") < begin + bucket * width)
        )
        painted = [bytearray(width) for _ in rows]
        spans = (
            drawn.select(
                "line",
                ((pl.col("t") - begin) // bucket).clip(0).alias("from"),
                ((pl.col("te") - begin) // bucket).clip(0, width - 1).alias("to"),
                "code",
            )
            .unique()
            .sort(pl.col("code").is_in([LOGGED, EXITED]), "code")
        )
        for line, start, end, code in spans.iter_rows():
            painted[line][start : end + 1] = bytes([code]) * (end + 1 - start)
        return [bytes(cells) for cells in painted]

    def _calls(self, timeline: Timeline, row: int, line: int) -> pl.DataFrame:
        end = self.ends.get(timeline.ranks[row], self.last)
        is_open = pl.col("code") >= RUNNING
        return timed(timeline, row).select(
            pl.lit(line, pl.Int64).alias("line"),
            "t",
            pl.coalesce(
                "te", pl.when(is_open).then(pl.max_horizontal("t", end)), "t"
            ).alias("te"),
            "code",
        )


def timed(timeline: Timeline, row: int) -> pl.DataFrame:
    """Return the timed calls of a row: `t te code col`, ordered by time."""
    grid = timeline.grid
    number, at = divmod(row, SLAB)
    if number >= len(grid.timed):
        return pl.DataFrame(schema={**PARTS, "col": pl.UInt32()})
    starts = grid.starts[number]
    part = grid.timed[number].slice(starts[at], starts[at + 1] - starts[at])
    return part.drop_nulls("t")


def clock(timeline: Timeline) -> Clock | None:
    """Return the clock of a job, or None if nothing in it has a time."""
    ns = pl.col("t").dt.epoch("ns")
    logged = timeline.marks.drop_nulls("t").select(
        "rank", ns.alias("t"), ns.alias("te"), pl.lit(LOGGED, pl.UInt8).alias("code")
    )
    exited = timeline.exits.drop_nulls("t").select(
        "rank", ns.alias("t"), ns.alias("te"), pl.lit(EXITED, pl.UInt8).alias("code")
    )
    times = [
        *(part[c] for part in timeline.grid.timed for c in ("t", "te")),
        logged["t"],
        exited["t"],
    ]
    bounds = [
        (low, high)
        for series in times
        if isinstance(low := series.min(), int)
        and isinstance(high := series.max(), int)
    ]
    if not bounds:
        return None
    first, last = min(low for low, _ in bounds), max(high for _, high in bounds)
    last = max(last, first + SECOND // 1000)
    ends = dict(exited.group_by("rank").agg(pl.col("t").min()).iter_rows())
    marks = pl.concat([_absent(timeline, last, ends), logged, exited])
    return Clock(first, last, marks, ends)


def _absent(timeline: Timeline, last: int, ends: dict[int, int]) -> pl.DataFrame:
    """Return the spans in which ranks were absent from a call, not waiting elsewhere.

    A rank that waits in another call is drawn as waiting, so that the wait chain ends
    in the absent rank.
    """
    waiting = timeline.frames["calls"]["waiting"].explode(empty_as_null=False)
    calls = timeline.frames["calls"].select(
        "call", pl.col("t").dt.epoch("ns").alias("t")
    )
    return (
        held(timeline.frames)
        .drop(naming.KEY)
        .filter((pl.col("code") == ABSENT) & ~pl.col("rank").is_in(waiting.implode()))
        .join(calls, on="call")
        .drop_nulls("t")
        .select(
            "rank",
            "t",
            pl.col("rank")
            .replace_strict(ends, default=last, return_dtype=pl.Int64)
            .alias("te"),
            "code",
        )
    )
