"""When dumps were written, as far as the modification times of their files show.

A dump does not record when it was taken, but its file does, unless it was copied. Torch
writes one when a call exceeds its timeout: the watchdog of a rank in that call finds it
and signals the others, which write theirs within a minute. So a file modified right
after a timeout of its own calls was written then; a copy hits that minute only by
chance. A file as old as its newest call is of a job that may not have stopped yet.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.timing.late_arrivals import timeout
from ncclforensics.model.frames import once_if_empty
from ncclforensics.model.plans import collected

# time from a timeout until all ranks have written their dumps
WRITES_MS = 120_000
# how far a file server's clock may be behind a host's
CLOCK_MS = 1_000
# a rank that has waited no longer, or for no more of its timeout, may still proceed
EARLY_MS = 60_000
EARLY = 1 / 10
# a call that began so long ago may simply take its time
JUST_MS = 1_000


@once_if_empty(decided_by=2)
def ages(
    held: pl.DataFrame, outline: pl.DataFrame, sources: pl.DataFrame
) -> pl.DataFrame:
    """Return how long each rank had waited when its dump was written.

    `held` are the calls that hold ranks up, `outline` is that of all calls. Columns
    `rank source line waited timeout_ms`, the last two in ms. Ranks whose file has no
    time, or one before its own calls, are left out.
    """
    waited = (pl.col("modified") - pl.col("t")).dt.total_milliseconds()
    call = ["source", "line"]
    return collected(
        held.lazy()
        .filter(pl.col("choice") == 0)
        .select("rank", "t", *call)
        .join(outline.lazy().select(*call, "timeout_ms", "backend"), on=call)
        .join(sources.lazy().select("source", "modified"), on="source")
        .select(
            *("rank", "source", "line"),
            waited.alias("waited"),
            timeout().alias("timeout_ms"),
        )
        .filter(pl.col("waited") >= -CLOCK_MS)
    )


def timed_out(told: pl.DataFrame) -> pl.DataFrame:
    """Return the `ages` of dumps that were written just after their timeout."""
    over = pl.col("waited") - pl.col("timeout_ms")
    return told.filter(over.is_between(-CLOCK_MS, WRITES_MS))


def last_calls(outline: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
    """Return how old the newest call of each dump was when it was written.

    Columns are those of `ages`. A dump counts if nobody waits in it, too.
    """
    held = collected(
        outline.lazy()
        .drop_nulls(["rank", "t"])
        .sort("rank", "t", "line")
        .unique("rank", keep="last", maintain_order=True)
        .select("rank", "t", "source", "line", choice=pl.lit(0))
    )
    return ages(held, outline, sources)


def are_early(told: pl.DataFrame, last: pl.DataFrame) -> bool:
    """Whether dumps were written soon after their ranks' calls.

    `told` are the `ages` of calls that hold ranks up, `last` the `last_calls`. One file
    alone may be as old as its calls by chance. If one rank alone is held up, the others
    have gone on: only a call that had just begun is no standstill.
    """
    together = last.filter(soon()).height > 1
    begun = told.height > 1 or (told["waited"] < JUST_MS).all()
    return told.height > 0 and together and begun and are_soon(told)


def show_a_long_wait(told: pl.DataFrame, last: pl.DataFrame) -> bool:
    """Whether ranks had waited for long, by files of which one is no copy.

    Such a file is as old as the newest call in it. `told` and `last` are as above.
    """
    is_own = bool(last.select(soon().any()).item())
    return told.height > 0 and is_own and not are_early(told, last)


def are_soon(told: pl.DataFrame) -> bool:
    """Whether no dump was written long after its rank's call."""
    return bool(told.select(soon().all()).item())


def soon() -> pl.Expr:
    """Return whether a dump was written soon after a call of its rank."""
    return pl.col("waited") < pl.min_horizontal(EARLY * pl.col("timeout_ms"), EARLY_MS)
