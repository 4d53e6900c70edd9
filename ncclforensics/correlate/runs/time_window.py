"""Drops failures outside the time window that the user asked for.

A kernel or agent log covers weeks. A line that reports a failure at another time is
dropped, with all rows read from it. Lines without a time are kept, and so are lines
that identify ranks, and dumps, which are of one moment.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ncclforensics.correlate.runs import clock
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.tables import FAILING

CITE = ("source", "line")
FED = ("events", "exits", "positions")


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` to `until`, both included, in UTC nanoseconds; None is open."""

    since: int | None = None
    until: int | None = None


ALWAYS = Span()


def within(frames: Frames, span: Span) -> Frames:
    """Return frames without the failures outside `span`; a note counts the lines."""
    if span == ALWAYS:
        return frames
    # years and zones can only be derived from all lines together
    dated = clock.with_year(frames)
    failed = dated["events"].filter(pl.col("role").is_in(FAILING).fill_null(False))
    rows = [rows.select(*CITE, "t") for rows in (failed, dated["exits"])]
    t = pl.col("t").dt.epoch("ns")
    early = pl.lit(False) if span.since is None else t < span.since
    late = pl.lit(False) if span.until is None else t > span.until
    outside = pl.concat(rows).filter(early | late).select(CITE).unique()

    def keep(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(outside, on=CITE, how="anti", maintain_order="left")

    text = f"left out as asked: lines on failures at other times ({outside.height:,})"
    note = tables.rows("notes", [{"stage": "correlate", "text": text}])
    kept = {name: keep(frames[name]) for name in FED if name in frames.tables}
    kept["notes"] = pl.concat([frames["notes"], note])
    return Frames(
        {**frames.tables, **kept},
        {name: keep(frame) for name, frame in frames.messages.items()},
    )
