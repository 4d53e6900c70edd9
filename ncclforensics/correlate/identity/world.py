"""Which ranks the job has: all numbers below the world size, seen or not.

Ranks are numbered without gaps, so a rank that is seen implies all below it. A group is
no larger than the job, and the input and output sizes of an all_gather or
reduce_scatter give the size of its group. Agents report how many processes they had,
launchers tell each process the size of the job, and many programs print `rank 3 of 8`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes, alive
from ncclforensics.correlate.identity import stated
from ncclforensics.correlate.runs import job
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.model.frames import Frames

MEGATRON = "python.megatron_sizes"
TIMEOUT = "c10d.watchdog.timeout"
GATHERS = ("_ALLGATHER_BASE", "ALLGATHER_BASE", "ALLGATHER")
SCATTERS = ("_REDUCE_SCATTER_BASE", "REDUCE_SCATTER_BASE", "REDUCE_SCATTER")
DEFAULT = "default_pg"  # the group of all ranks
MOST = 1 << 17  # larger numbers count something else


@remembered
def ranks(frames: Frames) -> frozenset[int]:
    """Return the ranks of the job: 0 to the highest that any evidence implies."""
    seen = {*frames["ranks"]["rank"].drop_nulls(), *agent_processes.ranks(frames)}
    size = max(1 + max(seen, default=-1), told_size(frames))
    return frozenset(range(min(size, MOST)))


def told_size(frames: Frames) -> int:
    """Return the largest world size that any evidence states or implies, else 0."""
    implied = [int(str(job.facts(frames)["world_size"] or 0)), *_gathered(frames)]
    return max(stated_size(frames), *implied)


def stated_size(frames: Frames) -> int:
    """Return the size of the job as programs and launchers state it, 0 if none does."""
    told: list[int] = [0, *said(frames)["world_size"].to_list()]
    sizes = frames.message(MEGATRON)
    if "world_size" in sizes.columns:
        told += sizes["world_size"].drop_nulls().to_list()
    if (mains := alive.seen(frames)).height:
        told += mains["world_size"].drop_nulls().to_list()
    return max(told)


def is_default(group: str) -> bool:
    """Whether a group that no line lists is that of all ranks, by its description."""
    return group.endswith("?") and f"|{DEFAULT}|" in group


def is_everyone(frames: Frames, some: Collection[int]) -> bool:
    """Whether `some` are all ranks of a job that has several."""
    return len(some) > 1 and ranks(frames) <= {*some}


@remembered
def said(frames: Frames) -> pl.DataFrame:
    """Return the lines in which ranks print their number (`told`) and the `world_size`.

    Empty if a number is not below its world size (the program counts from 1), or if
    several sizes occur (they are of several groups).
    """
    lines = stated.stated(frames).drop_nulls("world_size")
    wrong = (lines["told"] >= lines["world_size"]).any()
    return lines.clear() if wrong or lines["world_size"].n_unique() > 1 else lines


def of_default(frames: Frames, members: pl.DataFrame) -> pl.DataFrame:
    """Return `members` with all ranks in a default group that no line lists."""
    unlisted = pl.col("group").str.ends_with("?")
    default = unlisted & pl.col("group").str.contains(f"|{DEFAULT}|", literal=True)
    if members.filter(default).is_empty():
        return members
    everyone = pl.lit(sorted(ranks(frames)), pl.List(pl.Int64))
    return members.with_columns(
        pl.when(default).then(everyone).otherwise("members").alias("members")
    )


def gathered() -> pl.Expr:
    """Return the size of its group that a position implies by `op numel_in numel_out`.

    Null where the operation implies none, or the sizes are uneven.
    """
    gathers, scatters = (pl.col("op").is_in(ops) for ops in (GATHERS, SCATTERS))
    many = pl.when(gathers).then("numel_out").when(scatters).then("numel_in")
    few = pl.when(gathers).then("numel_in").when(scatters).then("numel_out")
    return pl.when((few > 0) & (many % few == 0)).then(many // few)


def _gathered(frames: Frames) -> list[int]:
    """Return the group sizes that timed-out all_gathers and reduce_scatters imply."""
    lines = frames.message(TIMEOUT)
    if not {"op", "numel_in", "numel_out"} <= set(lines.columns):
        return []
    sizes = lines.select(gathered().alias("size"))["size"].drop_nulls()
    return sizes.unique().sort().to_list()
