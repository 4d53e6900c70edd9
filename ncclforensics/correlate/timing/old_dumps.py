"""Dumps that are older than the logs beside them.

A dump stays where torch wrote it until a later job's dump takes its name; if that job
has fewer ranks, some are never overwritten. A dump of this job holds a call as late as
its hang. So dumps that all end days before the first line of any log are probably of
another job.
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from ncclforensics.correlate.traces import call_summary
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.notes import Note

# hosts may print a local time, and clocks may be wrong; a hang is seldom as long
MOST = timedelta(days=2)


@remembered
def age(frames: Frames) -> timedelta | None:
    """Return how much older all dumps are than all logs; None if not by MOST."""
    newest = call_summary.outline(frames)["t"].max()
    if newest is None:
        return None
    dumps = call_summary.dumps(frames)["source"]
    lines = frames["events"].filter(~pl.col("source").is_in(dumps.implode()))
    first = lines["t"].min()
    if first is None:
        return None
    older: timedelta = first - newest  # type: ignore[operator, assignment]
    return older if older > MOST else None


def noted(frames: Frames) -> Frames:
    """Return frames with a note if the dumps are too old for the logs."""
    older = age(frames)
    if older is None:
        return frames
    text = (
        f"the newest call of any dump is {older.days:,} days older than the first "
        "line of any log: if the dumps are an earlier job's, give the logs alone"
    )
    return frames.noting(Note("correlate", text))
