"""When dumps were written, as far as the modification times of their files tell.

A dump does not say when it was taken, and its file does, unless it was copied. Torch
writes one when a call has been open for its timeout: the watchdog of the rank that is
in it finds that, and tells the others, which write theirs within a minute. So a file
whose time is right behind a timeout of its own calls was written then; nobody's copy
comes at that minute but by chance. And a file that is as old as its newest call is of
a job of which nobody can say yet that it has stopped.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.timing.late_arrivals import timeout

# how long after a timeout a dump is there, with what all ranks take to write theirs
WRITES_MS = 120_000
# by how much the clock of a file server may be behind that of a host
CLOCK_MS = 1_000
# who has not waited longer, or for no more of a timeout, may be about to go on
EARLY_MS = 60_000
EARLY = 1 / 10


def ages(
    held: pl.DataFrame, outline: pl.DataFrame, sources: pl.DataFrame
) -> pl.DataFrame:
    """Return how long each rank had waited when its dump was written.

    `held` are the calls that hold ranks up, `outline` is that of all calls. Columns
    `rank source line waited timeout_ms`, both in ms; nobody whose file has no time, or
    one before its own calls.
    """
    own = held.filter(pl.col("choice") == 0).select("rank", "t", "source", "line")
    waited = (pl.col("modified") - pl.col("t")).dt.total_milliseconds()
    return (
        own.join(
            outline.select("source", "line", "timeout_ms", "backend"),
            on=["source", "line"],
        )
        .join(sources.select("source", "modified"), on="source")
        .select(
            *("rank", "source", "line"),
            waited.alias("waited"),
            timeout().alias("timeout_ms"),
        )
        .filter(pl.col("waited") >= -CLOCK_MS)
    )


def timed_out(told: pl.DataFrame) -> pl.DataFrame:
    """Return the ages of the dumps that were written as a timeout of theirs passed."""
    over = pl.col("waited") - pl.col("timeout_ms")
    return told.filter(over.is_between(-CLOCK_MS, WRITES_MS))


def are_early(told: pl.DataFrame) -> bool:
    """Whether all of several dumps were written soon after their ranks' calls."""
    soon = pl.col("waited") < pl.min_horizontal(EARLY * pl.col("timeout_ms"), EARLY_MS)
    return told.height > 1 and bool(told.select(soon.all()).item())
