"""What the rows of each file tell of it: its ranks and hosts, dialect, and times.

A path often tells neither the rank nor the host, and a file may hold lines of many
ranks. The dialect is whose messages a log holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# the first part of a message's name, where that is a program
DIALECTS = {
    "nccl": "NCCL",
    "c10d": "c10d",
    "torchelastic": "torchrun",
    "python": "Python",
    "kernel": "kernel",
    "slurm": "Slurm",
    "launchers": "launcher",
    "nvidia": "NVIDIA driver",
    "rdma": "RDMA",
    "nccl_tests": "nccl-tests",
    "ncclras": "NCCL RAS",
    "inspector": "NCCL Inspector",
}
MOST_DIALECTS = 3


def facts(frames: Frames) -> dict[str, dict[str, Any]]:
    """Return by file: `ranks` and `hosts` as lists, `dialects`, `first` and `last`.

    Times are UTC nanoseconds; None if no row of the file has a time.
    """
    nobody = pl.lit(None, pl.String()).alias("host")
    who = frames["ranks"].select("rank", "host").drop_nulls().unique("rank")
    calls = frames["outline"].select("source", "rank", "t", nobody)
    others = [
        frames[n].select("source", "rank", "t", "host") for n in ("events", "exits")
    ]
    told = (
        pl.concat([calls, *others])
        .lazy()
        .join(who.lazy(), on="rank", how="left", suffix="_known")
        .group_by("source")
        .agg(
            pl.col("rank").drop_nulls().unique().sort().alias("ranks"),
            pl.coalesce("host", "host_known").drop_nulls().unique().alias("hosts"),
            pl.col("t").min().dt.epoch("ns").alias("first"),
            pl.col("t").max().dt.epoch("ns").alias("last"),
        )
    )
    program = pl.col("message").str.split(".").list.first()
    said = (
        frames["events"]
        .lazy()
        .select("source", program.replace_strict(DIALECTS, default=None).alias("name"))
        .drop_nulls()
        .group_by("source", "name")
        .len()
        .sort("source", -pl.col("len").cast(pl.Int64), "name")
        .group_by("source", maintain_order=True)
        .agg(pl.col("name").head(MOST_DIALECTS).alias("dialects"))
    )
    both = collected(told.join(said, on="source", how="left"))
    return {row["source"]: row for row in both.iter_rows(named=True)}
