"""`[Rank 3]` watchdog prefixes that name no group, as torch up to 2.1 prints them.

The number is the rank in the group of the call, so it is the global rank only if the
job has one group. A second group shows as a named group, as communicators of several
sizes, as one number that two processes use, or by Megatron, which creates several. If
any of these is found, the number is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SPOKEN_BY = r"^(?:c10d\.watchdog|condensed)\."
INITS = ("nccl.init.start", "nccl.init.complete")
PARALLEL = "launchers.megatron."
TIMEOUT = "c10d.watchdog.timeout"
DEFAULT = ("default_pg", "0")
# other identifiers of a process
PROCESS = ("host", "pid", "local_rank", "task", "device")
NAMES = ("pg", "pg_id", "pg_desc")


def speakers(frames: Frames) -> pl.DataFrame:
    """Return `source line rank` of the lines whose `[Rank N]` is the global rank."""
    events = frames["events"]
    nameless = pl.all_horizontal(pl.col(c).is_null() for c in NAMES)
    said = events.filter(
        pl.col("message").str.contains(SPOKEN_BY)
        & nameless
        & pl.col("rank").is_null()
        & pl.col("group_rank").is_not_null()
    )
    if said.is_empty() or _second_group(frames) or _two_processes(frames, said):
        return said.select("source", "line", "rank").clear()
    return said.select("source", "line", pl.col("group_rank").alias("rank")).unique(
        ["source", "line"], keep="first", maintain_order=True
    )


def _second_group(frames: Frames) -> bool:
    """Whether anything names a group that is not the default one."""
    events = frames["events"]
    other = pl.coalesce(pl.col("pg_desc"), pl.col("pg"), pl.col("pg_id"))
    inits = frames.message(*INITS)
    sizes = inits["nranks"].n_unique() if "nranks" in inits.columns else 0
    parallel = any(name.startswith(PARALLEL) for name in frames.messages)
    apart = (pl.col("rank") != pl.col("group_rank")).fill_null(False)
    return (
        sizes > 1
        or parallel
        or not events.filter(other.is_not_null() & ~other.is_in(DEFAULT)).is_empty()
        or not events.filter(apart).is_empty()
    )


def _two_processes(frames: Frames, said: pl.DataFrame) -> bool:
    """Whether two processes print the same number.

    A timed-out call has one duration, so two durations of one call are two processes.
    """
    for column in PROCESS:
        known = said.drop_nulls(column).unique([column, "host", "group_rank"])
        each = known.group_by("group_rank").agg(pl.col(column).n_unique())
        if (each[column] > 1).any():
            return True
    # a global rank is never below its local rank
    below = said.drop_nulls("local_rank")
    if (below["local_rank"] > below["group_rank"]).any():
        return True
    timeouts = frames.message(TIMEOUT)
    if "ran_ms" not in timeouts.columns:
        return False
    mine = timeouts.join(said.select("source", "line"), on=["source", "line"])
    call = [c for c in ("timed_out", "op", "shape", "numel_in") if c in mine.columns]
    ran = mine.drop_nulls("ran_ms").group_by("group_rank", *call)
    return bool((ran.agg(pl.col("ran_ms").n_unique())["ran_ms"] > 1).any())
