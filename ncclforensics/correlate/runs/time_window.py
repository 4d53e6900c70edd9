"""Drops failures outside the time window that the user asked for.

A kernel or agent log covers weeks. A line that reports a failure at another time is
dropped, with all rows read from it. A line without a time lies between the dated lines
around it, and before its file was last written. Lines that identify ranks are kept.
Dumps of one hang are dropped together, by the newest call of all.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.runs import clock
from ncclforensics.correlate.traces import call_summary
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.model.span import ALWAYS, Span
from ncclforensics.model.tables import FAILING

CITE = ("source", "line")
FED = ("events", "exits", "positions")
# dumps of one hang: the ranks' last calls are at most a timeout apart
APART = pl.duration(milliseconds=pl.col("timeout_ms").max().fill_null(1_800_000))


def within(frames: Frames, span: Span) -> Frames:
    """Return frames without the failures outside `span`; notes count the lost rows."""
    if span == ALWAYS:
        return frames
    # years and zones can only be derived from all lines together
    dated = clock.with_year(frames)
    failed = pl.col("role").is_in(FAILING).fill_null(False)
    rows = [
        dated["events"].select(*CITE, "t", failed.alias("failed")),
        dated["exits"].select(*CITE, "t", failed=True),
    ]
    files = frames["sources"].select("source", "modified").unique("source")
    lines = pl.concat(rows).join(files, on="source", how="left").sort(CITE)
    later = pl.col("t").backward_fill().over("source")
    lines = lines.with_columns(
        pl.col("t").forward_fill().over("source").alias("after"),
        pl.coalesce(later, "modified").alias("before"),
    ).filter(pl.col("failed") & _is_outside(span))
    outside = lines.select(CITE).unique()
    dumps = _dumps(call_summary.outline(frames)).filter(_is_outside(span))["source"]

    def keep(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(outside, on=CITE, how="anti", maintain_order="left")

    def without_dumps(frame: pl.DataFrame) -> pl.DataFrame:
        held = "source" in frame.columns and len(dumps)
        return frame.filter(~pl.col("source").is_in(dumps.implode())) if held else frame

    told = [f"lines on failures at other times ({outside.height:,})"]
    told += [f"dumps of other times ({len(dumps):,})"] if len(dumps) else []
    said = [Note("correlate", f"left out as asked: {what}") for what in told]
    kept = {name: without_dumps(frame) for name, frame in frames.tables.items()}
    kept |= {name: keep(kept[name]) for name in FED if name in kept}
    messages = {name: keep(frame) for name, frame in frames.messages.items()}
    return Frames(kept, messages).noting(*said)


def _is_outside(span: Span) -> pl.Expr:
    """Whether all from `after` to `before` is outside; null is unknown."""
    early, late = pl.col("before").dt.epoch("ns"), pl.col("after").dt.epoch("ns")
    is_early = pl.lit(False) if span.since is None else early < span.since
    is_late = pl.lit(False) if span.until is None else late > span.until
    return is_early | is_late


def _dumps(outline: pl.DataFrame) -> pl.DataFrame:
    """Return the dumps' `source`, and the newest call of those of the same hang.

    Its time is both `after` and `before`.
    """
    newest = pl.max_horizontal("t", "t_started", "t_completed").max()
    of_file = (
        outline.group_by("source")
        .agg(newest.alias("t"), pl.col("timeout_ms").max())
        .drop_nulls("t")
        .sort("t", "source")
    )
    hang = (pl.col("t").diff() > APART).fill_null(False).cum_sum()
    newest = pl.col("t").max().over(hang)
    return of_file.select("source", newest.alias("after"), newest.alias("before"))
