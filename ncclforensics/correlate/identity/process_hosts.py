"""The host of a process that only other lines of its file tell.

NCCL's header has host and pid; an agent that reports an exit has the pid alone.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.frames import Frames, needing

EMPTY = {"source": pl.String(), "pid": pl.Int64(), "host": pl.String()}


@needing("events", "exits", otherwise=EMPTY)
def owners(frames: Frames) -> pl.DataFrame:
    """Return `source pid host` of the processes that a file names with their host.

    Only of files that name one host: processes of several, as in containers, often have
    equal pids.
    """
    key = ["source", "pid"]
    wanted = frames["exits"].filter(pl.col("host").is_null()).select(key).drop_nulls()
    if wanted.is_empty():
        return pl.DataFrame(schema=EMPTY)
    told = frames["events"].select(*key, "host").drop_nulls("host").unique()
    one = told.filter(pl.col("host").n_unique().over("source") == 1)
    return one.join(wanted.unique(), on=key).select(EMPTY.keys())
