"""Which communicator a pointer means: NCCL's `Init` lines, joined per process.

A pointer is valid in one process only, and is reused once its communicator is closed,
so a line means what the last `Init` line above it said. `commId` is the same on all
members. A split since 2.23 prints none, and is identified by its parent's name, the
number of the split there, and its color. Before 2.16 there is no name at all: then a
communicator is identified by its size, if only one of that size was built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import needing, remembered
from ncclforensics.model.tables import SCHEMAS, with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

INITS = ("nccl.init.start", "nccl.init.complete")
PROCESS = ["source", "host", "pid"]
NESTED = 4  # depth of nested splits that are resolved
STRANGERS = {
    "key": pl.String(),
    "nranks": pl.Int64(),
    "source": pl.String(),
    "line": pl.Int64(),
    "sources": pl.List(pl.String),
}
_CAPTURED = {
    "comm": pl.String(),
    "comm_rank": pl.Int64(),
    "nranks": pl.Int64(),
    "cuda_dev": pl.Int64(),
    "bus_id": pl.String(),
    "parent": pl.String(),
    "child": pl.Int64(),
    "color": pl.Int64(),
    "comm_id": pl.String(),
    "phase": pl.String(),
}


@remembered
@needing(*INITS, otherwise={**SCHEMAS["events"], **_CAPTURED, "key": pl.String()})
def inits(frames: Frames) -> pl.DataFrame:
    """Return the `Init` lines with `key`, the name that all members share, or null.

    The columns are those of `events`, the captures of the lines, and `key`.
    """
    lines = frames.message(*INITS)
    lines = with_nulls(lines, {**SCHEMAS["events"], **_CAPTURED})
    lines = lines.with_columns(
        pl.when(pl.col("parent") != "(nil)").then("parent").alias("parent")
    ).sort("line", maintain_order=True)
    known = lines.with_columns(pl.coalesce("comm_id", _by_size(lines)).alias("key"))
    for _ in range(NESTED):
        if not (known["key"].is_null() & known["parent"].is_not_null()).any():
            break
        known = _with_splits(known)
    return known


def named(lines: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Add `key comm_rank nranks` to lines that have `comm` and a process.

    `known` comes from `inits`. The columns are null if no `Init` line above the line
    explains its pointer.
    """
    meanings = (
        known.drop_nulls(["pid", "comm", "key"])
        .select(*PROCESS, "comm", "line", "key", "comm_rank", "nranks")
        .sort("line")
    )
    rest = [c for c in lines.columns if c not in ("comm_rank", "nranks", "key")]
    return (
        lines.select(rest)
        .sort("line", maintain_order=True)
        .join_asof(meanings, on="line", by=[*PROCESS, "comm"], check_sortedness=False)
    )


def owners(known: pl.DataFrame) -> pl.DataFrame:
    """Return the process of each `key`'s `comm_rank`, and its rank if known.

    Columns `key comm_rank nranks source host pid rank began joined`; the last two say
    whether START and COMPLETE were printed. The members of a communicator as large as
    the job are its ranks.
    """
    largest = known.filter(pl.col("nranks") == pl.col("nranks").max())
    world = largest.drop_nulls(["key", "pid"]).select(
        *PROCESS, "cuda_dev", pl.col("comm_rank").alias("world_rank")
    )
    # a process with several GPUs is several ranks
    by_device = world.group_by(*PROCESS, "cuda_dev").agg(pl.col("world_rank").unique())
    by_device = by_device.filter(pl.col("world_rank").list.len() == 1).with_columns(
        pl.col("world_rank").list.first()
    )
    return (
        known.drop_nulls(["key", "pid"])
        .join(by_device, on=[*PROCESS, "cuda_dev"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("rank", "world_rank").alias("rank"))
        .group_by("key", "comm_rank", "nranks", *PROCESS, maintain_order=True)
        .agg(
            pl.col("rank").first(),
            (pl.col("phase") == "START").any().alias("began"),
            (pl.col("phase") == "COMPLETE").any().alias("joined"),
        )
    )


def _by_size(lines: pl.DataFrame) -> pl.Series:
    """Name communicators that print no id by their size, if it was built once."""
    nameless = pl.col("comm_id").is_null() & pl.col("parent").is_null()
    sizes = (
        lines.filter(nameless)
        .group_by("nranks")
        .agg(
            pl.struct(*PROCESS, "comm").n_unique().alias("built"),
            pl.col("comm_rank").n_unique().alias("members"),
        )
        .filter((pl.col("built") == pl.col("members")) & (pl.col("nranks") > 1))
        .select("nranks", pl.lit(True).alias("once"))
    )
    marked = lines.join(sizes, on="nranks", how="left", maintain_order="left")
    return marked.select(
        pl.when(nameless & pl.col("once").fill_null(False)).then(
            pl.concat_str(pl.lit("of size "), pl.col("nranks"))
        )
    ).to_series()


def _with_splits(known: pl.DataFrame) -> pl.DataFrame:
    """Name the splits whose parent has a name."""
    parents = (
        known.drop_nulls(["pid", "comm", "key"])
        .select(
            *PROCESS,
            pl.col("comm").alias("parent"),
            "line",
            pl.col("key").alias("parent_key"),
        )
        .sort("line")
    )
    joined = known.join_asof(
        parents, on="line", by=[*PROCESS, "parent"], check_sortedness=False
    )
    # START and COMPLETE of one split count once: they share pointer and color
    begun = pl.col("line").min().over(*PROCESS, "parent", "comm")
    order = begun.rank("dense").over(*PROCESS, "parent").cast(pl.Int64) - 1
    number = pl.coalesce("child", order)
    name = pl.concat_str(
        pl.col("parent_key"), pl.lit("/"), number, pl.lit("."), pl.col("color")
    )
    split = pl.col("key").is_null() & pl.col("parent").is_not_null()
    return joined.with_columns(
        pl.when(split).then(name).otherwise("key").alias("key")
    ).drop("parent_key")


@remembered
@needing(*INITS, otherwise=STRANGERS)
def strangers(frames: Frames) -> pl.DataFrame:
    """Return communicators of all ranks that share no process, one row each.

    They are those of two jobs or attempts; communicators on other GPUs are one job's.
    Columns `key nranks source line sources`; no rows for one job.
    """
    known = inits(frames).drop_nulls(["key", "pid"])
    largest = pl.col("nranks") == pl.col("nranks").max().over("host", "pid")
    world = known.filter(largest.all().over("key"))
    if not (_most_keys(world, "pid") == 1 and _most_keys(world, "bus_id") > 1):
        world = world.clear()
    return world.group_by("key", maintain_order=True).agg(
        pl.col("nranks", "source", "line").first(),
        pl.col("source").unique().alias("sources"),
    )


def _most_keys(world: pl.DataFrame, place: str) -> int:
    """Return how many communicators one `place` of a host has at most, 0 of none."""
    keys = world.select("key", "host", place).unique().group_by("host", place).len()
    return int(str(keys["len"].max() or 0))
