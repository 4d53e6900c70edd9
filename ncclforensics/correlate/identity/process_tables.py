"""Which process is which, as a launcher lists its processes in its own output.

Ray names no host in front of a line from the node of the driver, `(RayTrainWorker
pid=4012) …`, and tells it in its table of workers: `- (ip=10.0.0.1, pid=4012)
world_rank=2, …`. DeepSpeed tells by its pid which child exited, and with which
`--local_rank` it had started it. An agent reports an exit by its pid alone; NCCL's
header in the same file has the host of that pid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import needing
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LISTS = ("launchers.ray.worker", "launchers.deepspeed.spawned")
KEY = ("source", "pid")
TOLD = ("host", "local_rank")
HOSTS = {"source": pl.String(), "pid": pl.Int64(), "host": pl.String()}


def placed(frames: Frames) -> Frames:
    """Return `frames` in which rows on a listed process have what its list tells.

    Only those of the list's own stream where several hosts are known: other files may
    be of other nodes, on which other processes have these numbers.
    """
    listed = _listed(frames)
    if listed.is_empty():
        return frames
    hosts = pl.concat([frames[name]["host"] for name in ("events", "sources", "exits")])
    key = KEY if hosts.drop_nulls().n_unique() > 1 else KEY[1:]
    listed = listed.select(*key, pl.col(f"_{c}" for c in TOLD)).unique(key, keep="none")

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        columns = [c for c in TOLD if c in frame.columns]
        if not {*KEY} <= set(frame.columns) or not columns or not frame["pid"].count():
            return frame
        joined = frame.join(listed, on=key, how="left", maintain_order="left")
        told = (pl.coalesce(c, f"_{c}").alias(c) for c in columns)
        return joined.with_columns(told).drop(f"_{c}" for c in TOLD)

    return frames.each(fill)


@needing(
    *LISTS,
    otherwise={
        **{c: tables.SCHEMAS["events"][c] for c in KEY},
        **{f"_{c}": tables.SCHEMAS["events"][c] for c in TOLD},
    },
)
def _listed(frames: Frames) -> pl.DataFrame:
    """Return KEY, `_host` and `_local_rank` of the processes that are listed once."""
    told = frames.message(*LISTS).select(*KEY, pl.col(TOLD).name.prefix("_"))
    return told.drop_nulls(KEY).unique().unique(KEY, keep="none")


@needing("events", "exits", otherwise=HOSTS)
def hosts_of_exits(frames: Frames) -> pl.DataFrame:
    """Return `source pid host` of the processes that a file names with their host.

    Only of files that name one host: processes of several, as in containers, often have
    equal pids.
    """
    nowhere = frames["exits"].lazy().filter(pl.col("host").is_null())
    wanted = collected(nowhere.select(KEY).drop_nulls())
    if wanted.is_empty():
        return tables.without_rows(HOSTS)
    told = frames["events"].lazy().select(*KEY, "host").drop_nulls("host").unique()
    one = told.filter(pl.col("host").n_unique().over("source") == 1)
    both = one.join(wanted.lazy().unique(), on=KEY)
    return collected(both.select(HOSTS.keys()))
