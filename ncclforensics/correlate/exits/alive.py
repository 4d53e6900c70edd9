"""Which ranks were alive when a node was collected, and which were gone already.

Only `collect` sees the processes themselves. A rank of which a node has no process,
though it has those of all its other local ranks, is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import remembered
from ncclforensics.model.tables import CITE

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

PROCESS = "collect.process"
JOB = ["host", "local_world_size", "world_size"]


@remembered
def seen(frames: Frames) -> pl.DataFrame:
    """Return the main processes of ranks as the last look at each saw them."""
    told = frames.message(PROCESS)
    if told.is_empty():
        return told
    mains = told.filter(pl.col("is_main") & pl.col("rank").is_not_null())
    return mains.sort("t", maintain_order=True).unique(
        ["host", "rank"], keep="last", maintain_order=True
    )


@remembered
def ranks(frames: Frames) -> frozenset[int]:
    """Return the ranks that were alive when they were last looked at."""
    told = seen(frames)
    if told.is_empty():
        return frozenset()
    return frozenset(told.filter("is_alive")["rank"].to_list())


def are_all(frames: Frames) -> bool:
    """Whether every rank of the job was alive, by the world size that they know."""
    told = seen(frames)
    size = told["world_size"].max() if told.height else None
    return isinstance(size, int) and ranks(frames) >= frozenset(range(size))


@remembered
def gone(frames: Frames) -> pl.DataFrame:
    """Return the ranks of which no process is left: `rank host t text`, CITE.

    A local rank follows the ones beside it by number, as every launcher numbers them.
    """
    schema = {c: (tables.SCHEMAS["events"] | CITE)[c] for c in _GONE}
    told = seen(frames)
    if told.is_empty():
        return pl.DataFrame(schema=schema)
    known = told.filter("searched").drop_nulls(["local_rank", "local_world_size"])
    rows = []
    for (host, size, _), part in known.group_by(JOB, maintain_order=True):
        first = (part["rank"] - part["local_rank"]).unique()
        if first.len() != 1 or not isinstance(size, int):
            continue
        alive = set(part.filter("is_alive")["rank"].to_list())
        rows += [
            {
                "rank": rank,
                "host": host,
                "t": part["t"][0],
                "text": f"no process of rank {rank}: {len(alive)} of {size} are left",
                "source": part["source"][0],
                "line": part["line"][0],
            }
            for rank in range(first[0], first[0] + size)
            if rank not in alive
        ]
    return pl.DataFrame(rows, schema=schema)


_GONE = ("rank", "host", "t", "text", *CITE)
