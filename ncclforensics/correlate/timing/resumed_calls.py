"""Calls made after a pause of a whole timeout, in a job that went on afterwards.

A watchdog writes its dump when the timeout of a call passes. If the straggler arrives
just then, the dumps show a running job; but a rank that made no call for as long as a
timeout shows where it was.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing import late_arrivals
from ncclforensics.correlate.traces.progress import grouped
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

KEY = ["group", "seq"]


def calls(frames: Frames) -> pl.DataFrame:
    """Return rows of the frame `calls` for the calls after such pauses.

    They block no rank any more, so that frame lacks them. `done` are all ranks that
    made the call, and `call` continues the numbering. Only pauses that ended less than
    a timeout before the newest call of their rank count: what waits now has not waited
    for as long.
    """
    first = _first(frames)
    if first is None:
        return tables.empty("calls")
    wanted = grouped(first, frames["group_names"]).drop_nulls(KEY)
    known = frames["calls"]
    wanted = wanted.join(known, on=KEY, how="anti")
    made = (
        frames.scan("collectives")
        .filter(
            pl.col("seq").is_in(wanted["seq"].unique().implode())
            & ~pl.col("is_p2p").fill_null(False)
        )
        .collect()
        .pipe(grouped, frames["group_names"])
        .join(wanted.select(KEY).unique(), on=KEY, how="semi")
    )
    came = made.group_by(KEY, maintain_order=True).agg(
        pl.col("rank").unique().sort().alias("done"),
        *(pl.col(c).first() for c in ("op", "pg", "pg_desc", "t", "source", "line")),
        pl.col("stack").first(),
    )
    numbered = came.with_columns(pl.int_range(pl.len()).add(known.height).alias("call"))
    nobody = pl.lit([], pl.List(pl.Int64))
    return tables.conform(
        "calls",
        numbered.with_columns(
            *(nobody.alias(c) for c in ("waiting", "behind", "absent", "unseen")),
            is_p2p=False,
        ),
    )


def _first(frames: Frames) -> pl.DataFrame | None:
    """Return the calls after a pause of their timeout; None if there are none."""
    if not frames.has("entries"):
        return None
    entries, templates = frames["entries"], frames["templates"]
    timeout = late_arrivals.timeout().alias("timeout_ms")
    told = templates.drop("line").with_columns(timeout).drop_nulls("timeout_ms")
    if told.is_empty():
        return None
    least = timedelta(milliseconds=int(str(told["timeout_ms"].min())))
    # of millions of calls only the times in between are computed
    pause = entries["t"].diff()
    rows = (pause >= least).fill_null(False).arg_true()
    if rows.is_empty():
        return None
    t = pl.col("t")
    paused = entries[rows].with_columns(
        pause=pause.gather(rows), before=entries["template"].gather(rows - 1)
    )
    sources = templates.select("template", "source")
    newest = (
        entries.group_by("template")
        .agg(t.max().alias("newest"))
        .join(sources, on="template")
        .group_by("source")
        .agg(pl.col("newest").max())
    )
    return (
        paused.join(told, on="template")
        .join(sources.rename({"template": "before"}), on=["before", "source"])
        .join(newest, on="source")
        .filter(
            (pl.col("pause").dt.total_milliseconds() >= pl.col("timeout_ms"))
            & ((pl.col("newest") - t).dt.total_milliseconds() < pl.col("timeout_ms"))
            & ~pl.col("is_p2p").fill_null(False)
        )
    )
