"""Over which hosts a job spans, and whether a communicator was built over them.

If one was, the choice of a network worked. If the largest communicator of a process
spans one host, its job needs no network at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


def spans_hosts(frames: Frames, using: pl.DataFrame) -> bool:
    """Whether the job has more than one host, by its lines or by NCCL's count."""
    if using["host"].n_unique() > 1:
        return True
    nccl = frames["events"].filter(pl.col("message").str.starts_with("nccl."))
    if nccl["host"].drop_nulls().n_unique() > 1:
        return True
    layout = frames.message("nccl.comm.layout")
    return bool(layout.height and (layout["nodes"] > 1).any())


def all_joined(frames: Frames) -> bool:
    """Whether a communicator of several hosts was built: then the choice worked."""
    complete = frames.message("nccl.init.complete")
    if complete.is_empty():
        return False
    built = complete.group_by("comm_id").agg(
        pl.col("host").n_unique().alias("hosts"),
        pl.col("comm_rank").n_unique().alias("ranks"),
        pl.col("nranks").max(),
    )
    return not built.filter(
        (pl.col("hosts") > 1) & (pl.col("ranks") == pl.col("nranks"))
    ).is_empty()


def at_home(frames: Frames) -> pl.DataFrame:
    """Return `host pid` of processes whose largest communicator spans one host.

    It was built, so their job needs no other host, even if other hosts left logs.
    """
    process = ["host", "pid"]
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    complete = frames.message("nccl.init.complete")
    if complete.is_empty():
        return complete.select(process)
    comm = pl.col("comm_rank").n_unique().over("comm_id")
    one_host = pl.col("host").n_unique().over("comm_id") == 1
    built = complete.filter(one_host & (comm == pl.col("nranks")))
    largest = inits.group_by(process).agg(pl.col("nranks").max())
    return built.join(largest, on=[*process, "nranks"]).select(process).unique()
