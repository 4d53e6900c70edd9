"""What lines and files claim about ranks: one row per claim, none of them weighed."""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.exits import agent_processes
from ncclforensics.correlate.identity import placements, stated, world
from ncclforensics.correlate.steps import regular_forms
from ncclforensics.correlate.traces import process_stacks
from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, needing, remembered
from ncclforensics.model.tables import CITE

CLAIMING = ("sources", "events", "exits", "ranks")
PID_OF = "python.pid_of"
METRICS = "timers.metrics"
LABELLED_HOST = r"[{,](?:node|host|hostname)=\"([\w.-]+)\""
TABLES = ("timers.megatron.ranks", "launchers.nvrx.scores")
PIDS = {
    **dict.fromkeys(("told", "pid", "named", "its", "whose", "behind"), pl.Int64()),
    "before": pl.String(),
}
# what stands before `rank` where it is not the one in the job
OF_A_PART = r"(?i)\b(?:local|node|group|parallel|[dtpec]p|data|tensor|pipeline|expert)$"
LEAST = 2  # processes of a job
COMPLETE = ("nccl.init.complete", "nccl.init.start")


@remembered
def claims(frames: Frames) -> pl.DataFrame:
    """Return the claims on ranks in schema `ranks`, one row per claim."""
    # a dump belongs to one rank: one claim stands for its millions of calls
    dumped = outline(frames).select("rank", "source").unique(maintain_order=True)
    inits = frames.message(*COMPLETE)
    inits = inits if inits.height else _inspected(frames)
    told = [
        *(tables.picked("ranks", frames[name]) for name in CLAIMING),
        *(
            tables.picked("ranks", of)
            for of in (dumped, frames.message(regular_forms.LINES))
        ),
        _from_inits(inits) if inits.height else _from_trees(frames),
        *(of(frames) for of in (placements.claims, _from_words, _from_pids)),
        *(of(frames) for of in (_from_tables, _from_metrics)),
        agent_processes.left_out(frames),
    ]
    headed = process_stacks.headed(frames)
    if headed.height:
        there = pl.coalesce("host", only_host(pl.concat(told))).alias("host")
        told.append(tables.picked("ranks", headed.with_columns(there)))
    return pl.concat(told).unique(maintain_order=True)


def only_host(told: pl.DataFrame) -> pl.Expr:
    """Return the only host that claims name, as a literal; null if they name more."""
    hosts = told["host"].drop_nulls().unique()
    return pl.lit(hosts[0] if len(hosts) == 1 else None, pl.String)


def _from_words(frames: Frames) -> pl.DataFrame:
    """Return rank claims from lines in which programs state their rank.

    None of programs that count from 1, or of groups of several sizes.
    """
    lines = stated.stated(frames)
    sizes = lines["world_size"].drop_nulls()
    if sizes.len() and world.said(frames).is_empty():
        return tables.empty("ranks")
    told = lines.with_columns(pl.coalesce("rank", "told").alias("rank"))
    return tables.picked("ranks", told)


def _from_tables(frames: Frames) -> pl.DataFrame:
    """Return rank claims from tables of steps that have a row a rank."""
    rows = frames.message(*TABLES)
    if "of_rank" not in rows.columns:
        return tables.empty("ranks")
    told = rows.drop_nulls("of_rank").unique("of_rank", keep="first")
    told = tables.with_nulls(told, {"on": pl.String()})
    host = pl.coalesce("on", "host")
    return tables.picked("ranks", told.with_columns(rank="of_rank", host=host))


def _from_metrics(frames: Frames) -> pl.DataFrame:
    """Return rank claims from the labels of counters that Prometheus reads."""
    lines = frames.message(METRICS)
    text = pl.col("text")
    told = lines.select(
        *CITE,
        rank=text.str.extract(stated.LABELLED_RANK).cast(pl.Int64),
        host=pl.coalesce(text.str.extract(LABELLED_HOST), "host"),
    )
    told = told.drop_nulls("rank").unique("rank", keep="first", maintain_order=True)
    return tables.picked("ranks", told)


@needing(PID_OF, otherwise=dict(tables.SCHEMAS["ranks"]))
def _from_pids(frames: Frames) -> pl.DataFrame:
    """Return rank claims from lines like `worker 1 pid 12431`, one process a number.

    `started rank 1 pid 12431` names a rank. Workers are ranks only if their numbers are
    all from 0 on and no rank is known otherwise: those of a data loader are numbered as
    well.
    """
    lines = tables.with_nulls(frames.message(PID_OF), PIDS)
    of_part = pl.col("before").str.contains(OF_A_PART).fill_null(False)
    ranks = lines.filter(~of_part).with_columns(
        pl.coalesce("named", "behind").alias("told"),
        pl.coalesce("its", "whose").alias("pid"),
    )
    named = _one_each(ranks)
    known = any(frames[name]["rank"].count() for name in ("events", "sources"))
    workers = _one_each(lines)
    whole = workers["told"].max() == workers["told"].n_unique() - 1
    if not named.is_empty() or known or not whole:
        return tables.picked("ranks", named.with_columns(rank="told"))
    return tables.picked("ranks", workers.with_columns(rank="told"))


def _one_each(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that tell `told` and `pid`, if they are of one process each."""
    told = lines.drop_nulls(["told", "pid"])
    pairs = told.select("told", "pid").unique()
    apart = pairs["told"].is_unique().all() and pairs["pid"].is_unique().all()
    return told if apart and pairs.height >= LEAST else told.clear()


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
    return tables.picked("ranks", told)
