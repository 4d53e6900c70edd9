"""Jobs that say that their training is over: what went wrong before, they survived.

All ranks advance together: one of them ends its training only if all others made every
step. That the last rank ended it, too, is shown where each says so.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces import call_summary
from ncclforensics.model.frames import Frames, needing, remembered
from ncclforensics.model.tables import FAILING

OVER = "python.training_over"
# what ranks print that wait in calls, or lose a peer
OF_CALLS = r"^(?:c10d|nccl|rccl|hccl|horovod)\."


@remembered
def lines(frames: Frames) -> pl.DataFrame:
    """Return the lines in which ranks say that their training is over.

    Empty if calls failed: they may have failed behind the training.
    """
    told = frames.message(OVER)
    failed = pl.col("role").is_in(FAILING) & pl.col("message").str.contains(OF_CALLS)
    if told.is_empty() or not frames["events"].filter(failed).is_empty():
        return told.clear()
    return told


@needing(OVER, otherwise=0)
def many(frames: Frames) -> int:
    """Return how many ranks say so, by their numbers or by as many equal lines."""
    told = lines(frames)
    ranks = told["rank"].drop_nulls().n_unique()
    alike = told.filter(pl.col("rank").is_null())["text"].value_counts()["count"].max()
    return max(ranks, int(str(alike or 0)))


def is_whole(frames: Frames) -> bool:
    """Whether each rank of the job that is known says so."""
    seen = frames["ranks"]["rank"].drop_nulls()
    dumped = call_summary.dumps(frames)["rank"].drop_nulls()
    size = 1 + max(int(str(r.max())) if r.len() else -1 for r in (seen, dumped))
    return 0 < size <= many(frames)
