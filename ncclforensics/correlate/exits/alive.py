"""Which ranks were alive when a node was collected, and which were gone already.

Only `collect` sees the processes themselves. A rank of which a node has no process,
though it has those of all its other local ranks, is gone. So is one whose process
py-spy was to dump, and did not find.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.notes import Note
from ncclforensics.model.tables import CITE

PROCESS, FAULT = "collect.process", "kernel.segfault"
NOT_FOUND = "stacks.pyspy_gone"
KILLS = ("kernel.oom_kill", "kernel.oom_kill.target")
CLOCKS_S = 2  # by which a kernel's log and a process's start may differ
JOB = ["host", "local_world_size", "world_size"]


@remembered
def seen(frames: Frames) -> pl.DataFrame:
    """Return the main processes of ranks as the last look at each saw them."""
    told = frames.message(PROCESS)
    if told.is_empty():
        return told
    mains = told.filter(pl.col("is_main") & pl.col("rank").is_not_null())
    return mains.sort("taken", maintain_order=True).unique(
        ["host", "rank"], keep="last", maintain_order=True
    )


def looks(frames: Frames) -> pl.DataFrame:
    """Return `source taken`: when each look at processes was taken."""
    told = frames.message(PROCESS)
    schema = {"source": pl.String(), "taken": tables.TIME}
    if told.is_empty():
        return pl.DataFrame(schema=schema)
    return told.select(*schema).unique("source", maintain_order=True)


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


def _whole_hosts(frames: Frames) -> pl.Series:
    """Return the hosts of which every local rank was alive."""
    told = seen(frames)
    if told.is_empty():
        return pl.Series("host", [], pl.String)
    local = told.group_by("host").agg(
        pl.col("is_alive").sum().alias("live"), pl.col("local_world_size").max()
    )
    return local.filter(pl.col("live") >= pl.col("local_world_size"))["host"]


def of_ranks(frames: Frames, deaths: pl.DataFrame) -> pl.DataFrame:
    """Drop the deaths of processes (`rank host t`) that can be no rank's.

    By `collect`: all ranks live, of the job or on that host, or were started later. The
    kernel tells of other programs as well, called python too, and of earlier jobs.
    """
    told = seen(frames)
    if told.is_empty() or deaths.is_empty():
        return deaths
    nameless = pl.col("rank").is_null()
    here = pl.col("host").is_in(_whole_hosts(frames).implode())
    stranger = nameless if are_all(frames) else nameless & here.fill_null(False)
    known = deaths.filter(~stranger)
    if "started" not in told.columns:
        return known
    first = told.group_by("host").agg(pl.col("started").min().alias("_started"))
    joined = known.join(first, on="host", how="left", maintain_order="left")
    early = pl.col("t") < pl.col("_started") - pl.duration(seconds=CLOCKS_S)
    return joined.filter(~early.fill_null(False)).drop("_started")


def without_strangers(frames: Frames) -> Frames:
    """Drop the deaths in the kernel's log that are of no rank; see `of_ranks`."""
    if not frames.tells((FAULT, *KILLS)):
        return frames
    told = frames.message(FAULT, *KILLS).select(*CITE).unique()
    deaths = frames["exits"].join(told, on=[*CITE], how="semi")
    theirs = deaths.join(of_ranks(frames, deaths), on=[*CITE], how="anti")
    if theirs.is_empty():
        return frames
    kept = frames["exits"].join(theirs, on=[*CITE], how="anti", maintain_order="left")
    text = "the kernel tells of processes that died and are no ranks: those there live"
    return frames.noting(Note("correlate", text, theirs["source"][0]), exits=kept)


@remembered
def gone(frames: Frames) -> pl.DataFrame:
    """Return the ranks of which no process is left: `rank host t text`, CITE.

    A local rank follows the ones beside it by number, as every launcher numbers them.
    Where `collect` took no list, they are those that py-spy did not find.
    """
    schema = pl.Schema({c: (tables.SCHEMAS["events"] | CITE)[c] for c in _GONE})
    told = seen(frames)
    if told.is_empty():
        spied = frames.message(NOT_FOUND)
        if spied.is_empty():
            return tables.without_rows(schema)
        spied = spied.drop_nulls("rank").select(*schema).cast(schema)
        return spied.unique("rank", keep="first", maintain_order=True)
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
                "t": part["taken"][0],
                "text": f"no process of rank {rank}: {len(alive)} of {size} are left",
                "source": part["source"][0],
                "line": part["line"][0],
            }
            for rank in range(first[0], first[0] + size)
            if rank not in alive
        ]
    return pl.DataFrame(rows, schema=schema)


_GONE = ("rank", "host", "t", "text", *CITE)
