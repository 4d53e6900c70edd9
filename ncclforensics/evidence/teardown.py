"""What was printed before the job was torn down, and what only because of it.

After the first watchdog timeout, exception or signal, all ranks lose each other: closed
sockets and failed transfers from then on are echoes. A line counts as earlier if it is
above any such mark in its own file, and no mark of another file is known to be older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import primary_exits
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MARKS = (
    "c10d.watchdog.timeout",
    "c10d.blocking_wait.timeout",
    "c10d.gloo.timeout",
    "c10d.heartbeat.terminate",
    "torchelastic.closing",
    "torchelastic.signalled",
    "torchelastic.signalled.raised",
    "slurm.cancelled",
)
# SIGILL, SIGBUS, SIGFPE, SIGKILL, SIGSEGV: a self-abort has another code
FAULTS = [-4, -7, -8, -9, -11]
APART = pl.duration(seconds=1)  # stamps of two hosts agree to about a second


def before(frames: Frames, lines: pl.DataFrame, hosts: int = 0) -> pl.DataFrame:
    """Keep the lines that were printed before any sign of the job's end.

    Lines without a time, in files without such a sign, can be either: a late rank finds
    its peers gone. They are kept if at least `hosts` hosts print them, or if another
    line is known to be early; with 0 hosts only in the latter case.
    """
    if lines.is_empty():
        return lines
    placed = ["source", "line", "t"]
    fell = own_deaths(frames).select(placed)
    marks = pl.concat([frames.message(*MARKS).select(placed), fell])
    if marks.is_empty():
        return lines
    first = marks.group_by("source").agg(pl.col("line").min().alias("_mark"))
    kept = lines.join(first, on="source", how="left", maintain_order="left").filter(
        pl.col("_mark").is_null() | (pl.col("line") < pl.col("_mark"))
    )
    oldest, timed = marks["t"].min(), pl.lit(False)
    if oldest is not None and not marks["t"].null_count():
        kept = kept.filter(
            pl.col("t").is_null() | (pl.col("t") <= pl.lit(oldest) + APART)
        )
        timed = pl.col("t").is_not_null()
    early = kept.filter(pl.col("_mark").is_not_null() | timed)
    several = kept["host"].drop_nulls().n_unique() >= hosts > 0 and fell.is_empty()
    return (kept if early.height or several else kept.clear()).drop("_mark")


@remembered
def own_deaths(frames: Frames) -> pl.DataFrame:
    """Return the deaths proven by a traceback, or by a signal no watchdog sends."""
    fell = primary_exits.of_own(frames)
    return fell.filter((pl.col("by") == "traceback") | pl.col("code").is_in(FAULTS))
