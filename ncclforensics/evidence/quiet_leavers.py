"""The rank that left without a word, while all others report that they lost a peer.

Somebody has to have closed the connections. If every other rank of the job says that a
peer is gone, none waited for its timeout, and one rank's output just ends, it is that
one. How it ended, its output does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.correlate.waits import roll_call

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

FEWEST = 2  # ranks that lost it


def rank(frames: Frames) -> int | None:
    """Return the only rank with output that does not report a lost peer, or None."""
    told = roll_call.call(frames)
    left = told.known - told.waited
    heard = exit_records.ranks_of(_said(frames))
    alone = len(left) == 1 and left <= heard and len(told.waited) >= FEWEST
    return next(iter(left)) if alone and not told.timed_out else None


def words(frames: Frames) -> pl.DataFrame:
    """Return the last line of that rank, in SCHEMA; empty if there is none."""
    said = _said(frames).filter(pl.col("rank").is_in([rank(frames)]))
    return (
        said.sort("source", "line")
        .tail(1)
        .select(
            "rank",
            "host",
            pl.lit(None, pl.Int64).alias("code"),
            pl.lit("nothing tells how, and all others lost it").alias("why"),
            pl.lit(None, pl.String).alias("site"),
            pl.lit("silence").alias("by"),
            *("t", "text", "source", "line"),
        )
    )


def _said(frames: Frames) -> pl.DataFrame:
    return frames["events"].filter(pl.col("role") == "neutral")
