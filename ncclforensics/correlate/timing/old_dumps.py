"""Dumps that are older than the logs beside them.

A dump lies where torch wrote it until the next job's dump takes its name, and with
fewer ranks some are never written over. One of this job holds a call as late as its
hang; so all dumps that end days before the first line of any log are hardly of it.
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from ncclforensics.correlate.traces import call_summary
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered

# hosts may print a local time, and clocks may be wrong; a hang is seldom as long
MOST = timedelta(days=2)


@remembered
def age(frames: Frames) -> timedelta | None:
    """Return by how much all dumps are older than all logs; None where they are not."""
    newest = call_summary.outline(frames).select(pl.col("t").max()).item()
    dumps = call_summary.dumps(frames)["source"]
    lines = frames["events"].filter(~pl.col("source").is_in(dumps.implode()))
    first = lines.select(pl.col("t").min()).item()
    if newest is None or first is None or first - newest <= MOST:
        return None
    older: timedelta = first - newest
    return older


def noted(frames: Frames) -> Frames:
    """Note dumps that are too old for the logs."""
    older = age(frames)
    if older is None:
        return frames
    text = (
        f"the newest call of any dump is {older.days:,} days older than the first "
        "line of any log: if the dumps are an earlier job's, give the logs alone"
    )
    note = tables.rows("notes", [{"stage": "correlate", "text": text}])
    return Frames(
        {**frames.tables, "notes": pl.concat([frames["notes"], note])}, frames.messages
    )
