"""What lines and files claim about ranks: one row per claim, none of them weighed."""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.exits import agent_processes
from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces import process_stacks
from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, remembered
from ncclforensics.model.tables import CITE

MOST_NOTED = 64  # ranks of a host
COMPLETE = ("nccl.init.complete", "nccl.init.start")


@remembered
def claims(frames: Frames) -> pl.DataFrame:
    """Return the claims on ranks in schema `ranks`, one row per claim."""
    # a dump belongs to one rank: one claim stands for its millions of calls
    dumped = outline(frames).select("rank", "source").unique(maintain_order=True)
    inits = frames.message(*COMPLETE)
    inits = inits if inits.height else _inspected(frames)
    told = [
        *(_claimed(frames[name]) for name in ("sources", "events", "exits", "ranks")),
        _claimed(dumped),
        _from_inits(inits) if inits.height else _from_trees(frames),
        *(of(frames) for of in (_from_listing, _from_words, _from_notes)),
        agent_processes.left_out(frames),
    ]
    headed = process_stacks.headed(frames)
    if headed.height:
        hosts = pl.concat([part["host"] for part in told]).drop_nulls().unique()
        only = pl.lit(hosts[0] if len(hosts) == 1 else None, pl.String)
        there = headed.with_columns(pl.coalesce("host", only).alias("host"))
        told.append(_claimed(there))
    return pl.concat(told).unique(maintain_order=True)


def _claimed(lines: pl.DataFrame) -> pl.DataFrame:
    """Return what lines tell of ranks, in schema `ranks`; what none tells is null."""
    if lines.is_empty():
        return tables.empty("ranks")
    schema = tables.SCHEMAS["ranks"]
    return tables.conform(
        "ranks", lines.select(c for c in lines.columns if c in schema)
    )


def _from_listing(frames: Frames) -> pl.DataFrame:
    """Return rank claims from Slurm task lines that name the host.

    A task is one rank if a host holds several tasks. If each host holds one, the task
    may be an agent of several ranks, and its number is that of the node.
    """
    lines = frames.message("slurm.listed", "slurm.submitit.started")
    hosts = [c for c in ("after", "before") if c in lines.columns]
    if not hosts or any(name.startswith("torchelastic.") for name in frames.messages):
        return tables.empty("ranks")
    lines = lines.with_columns(
        pl.coalesce(*hosts).alias("host"), pl.col("procid").alias("rank")
    ).drop_nulls(["host", "rank"])
    several = "on_node" in lines.columns and bool((lines["on_node"] > 1).any())
    if not several and lines["rank"].n_unique() <= lines["host"].n_unique():
        return tables.empty("ranks")
    return _claimed(lines.select("rank", "host", *CITE))


def _from_words(frames: Frames) -> pl.DataFrame:
    """Return rank claims from lines in which programs print `rank 3 of 8`."""
    lines = world.said(frames)
    if lines.is_empty():
        return tables.empty("ranks")
    return _claimed(lines.with_columns(pl.coalesce("rank", "told").alias("rank")))


def _from_notes(frames: Frames) -> pl.DataFrame:
    """Return rank claims from lines that somebody wrote: `gpu0003 ranks 16-23`."""
    lines = frames.message("system.rank_map", "system.rank_map.on")
    if "first" not in lines.columns:
        return tables.empty("ranks")
    last = pl.coalesce("last", "first")
    told = lines.filter((last - pl.col("first")).is_between(0, MOST_NOTED)).select(
        pl.int_ranges("first", last + 1).alias("rank"), "host", *CITE
    )
    return _claimed(told.explode("rank"))


def _from_inits(inits: pl.DataFrame) -> pl.DataFrame:
    """Return rank claims from the communicators that span the job.

    A communicator rank is the global rank only in a group of all ranks. That group is
    the largest, and each of its ranks has one GPU, the same in each attempt. If a rank
    has two GPUs, there are several groups of that size, and `rank` is not filled in.
    """
    largest = inits.filter(pl.col("nranks") == pl.col("nranks").max())
    gpu = pl.when(pl.col("bus_id").is_null()).then("pid")
    owners = largest.group_by("comm_rank").agg(
        pl.struct("host", "bus_id", gpu.alias("pid")).n_unique().alias("owners")
    )
    spans = owners.filter(pl.col("owners") > 1).is_empty()
    rank = pl.col("comm_rank") if spans else pl.lit(None, pl.Int64)
    return largest.select(
        pl.coalesce("rank", rank).alias("rank"),
        "local_rank",
        "host",
        "pid",
        pl.col("cuda_dev").alias("device"),
        pl.col("bus_id"),
        "attempt",
        *CITE,
    )


def _inspected(frames: Frames) -> pl.DataFrame:
    """Return one line of NCCL's Inspector a communicator, as a line of its set-up."""
    lines = frames.message("inspector.completed")
    if "group_rank" not in lines.columns or lines.is_empty():
        return lines.clear()
    one = ["host", "pid", "pg"]
    return lines.unique(one, keep="first", maintain_order=True).select(
        pl.exclude("bus_id"),
        pl.col("group_rank").alias("comm_rank"),
        pl.lit(None, pl.Int64).alias("cuda_dev"),
        pl.lit(None, pl.String).alias("bus_id"),
    )


def _from_trees(frames: Frames) -> pl.DataFrame:
    """Return rank claims from tree lines of a communicator of unknown size.

    A set-up that fails leaves nothing else. If at least two processes on the only host
    show that rank equals device, the devices of the other processes give their ranks.
    """
    process = ["host", "pid", "device"]
    trees = frames.message("nccl.trees")
    if "comm_rank" not in trees.columns:
        return tables.empty("ranks")
    key = [*process, "comm_rank"]
    seen = trees.drop_nulls(process).unique(key, keep="first", maintain_order=True)
    if not (seen["comm_rank"].is_unique().all() and seen["pid"].is_unique().all()):
        return tables.empty("ranks")
    told = seen.with_columns(pl.coalesce("rank", "comm_rank").alias("rank"))
    others = (
        frames["events"]
        .drop_nulls(process)
        .filter(pl.col("message").str.starts_with("nccl."))
    )
    others = others.unique(process, keep="first", maintain_order=True)
    one_each = others["device"].is_unique().all() and others["pid"].is_unique().all()
    by_device = told.height > 1 and (told["rank"] == told["device"]).all()
    if one_each and by_device and others["host"].n_unique() == 1:
        told = others.with_columns(pl.coalesce("rank", "device").alias("rank"))
    return _claimed(told)
