"""Which ranks run on a host, as launchers, schedulers and people list it.

A line of `grammars/placement.toml` gives `first` to `last` ranks `on` a host. A pod is
the host of its ranks, and its node is the host of the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import needing, once_if_empty
from ncclforensics.model.tables import CITE

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

LISTED = (
    *("placement.host", "placement.ranks", "placement.table", "placement.json"),
    *("placement.mpi.map", "placement.mpi.bound", "placement.deepspeed"),
)
MET = "torchelastic.rendezvous.complete"
TASKS = ("slurm.listed", "slurm.submitit.started", "placement.srun")
SLOTS = "placement.slots"
PLACED = "launchers.kubernetes.placed"
MOST = 64  # ranks of a host
SLOT = {"on": pl.String(), "slots": pl.Int64()}
PLACE = {
    "on": pl.String(),
    **dict.fromkeys(("first", "last", "turn", "pid"), pl.Int64()),
}


def claims(frames: Frames) -> pl.DataFrame:
    """Return `rank host local_rank` and CITE of every placement, in schema `ranks`."""
    met = frames.message(MET)  # of an agent, whose host its file or its lines tell
    told = _listed(frames.message(*LISTED))
    return pl.concat([told, _tasks(frames), tables.picked("ranks", met)])


@once_if_empty()
def _listed(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks of lines with the columns PLACE; a host holds at most MOST."""
    missing = [pl.lit(None, t).alias(c) for c, t in PLACE.items() if c not in lines]
    lines = lines.with_columns(missing)
    last = pl.coalesce("last", "first")
    # who prints it names its host in front of the line
    host = pl.coalesce("on", "host").alias("host")
    told = lines.filter((last - pl.col("first")).is_between(0, MOST)).select(
        pl.int_ranges("first", last + 1).alias("rank"),
        host,
        pl.col("turn").alias("local_rank"),
        pl.when(last == pl.col("first")).then("pid").alias("pid"),
        *CITE,
    )
    return tables.picked("ranks", told.explode("rank"))


@needing(SLOTS, otherwise={"rank": pl.Int64(), "host": pl.String()})
def by_slots(frames: Frames) -> pl.DataFrame:
    """Return the `rank host` of a hostfile that has as many slots as there are ranks.

    None where several files differ: they are of other jobs.
    """
    lines = tables.with_nulls(frames.message(SLOTS), SLOT).sort("source", "line")
    files = lines.group_by("source").agg("on", "slots").unique(["on", "slots"])
    one = lines.join(files.head(1), on="source", how="semi", maintain_order="left")
    if files.height > 1 or one["slots"].sum() != frames["ranks"].height:
        one = one.clear()
    ends = pl.col("slots").cum_sum()
    told = _listed(one.with_columns(first=ends - pl.col("slots"), last=ends - 1))
    return told.select("rank", "host")


def _tasks(frames: Frames) -> pl.DataFrame:
    """Return rank claims from Slurm task lines that name the host.

    A task is one rank if a host holds several tasks. If each host holds one, the task
    may be an agent of several ranks, and its number is that of the node.
    """
    lines = frames.message(*TASKS)
    agents = any(name.startswith("torchelastic.") for name in frames.messages)
    if lines.is_empty() or agents:
        return tables.empty("ranks")
    hosts = [c for c in ("on", "after", "before") if c in lines.columns]
    tasks = [c for c in ("first", "procid") if c in lines.columns]
    lines = lines.with_columns(
        pl.coalesce(*hosts, pl.lit(None, pl.String)).alias("on"),
        pl.coalesce(*tasks).alias("first"),
    ).drop_nulls(["on", "first"])
    told = _listed(lines)
    several = "on_node" in lines.columns and bool((lines["on_node"] > 1).any())
    if not several and told["rank"].n_unique() <= told["host"].n_unique():
        return tables.empty("ranks")
    return told


def hosts(frames: Frames) -> pl.Series:
    """Return the names of hosts that any placement tells, as String."""
    lines = frames.message(*LISTED, *TASKS)
    named = [lines[c] for c in ("on", "before", "after") if c in lines.columns]
    return pl.concat([pods(frames)["node"], *named]).drop_nulls().unique()


def pods(frames: Frames) -> pl.DataFrame:
    """Return the `pod` and the `node` of each line that places a pod."""
    lines = frames.message(PLACED)
    named = [c for c in ("pod", "pulling", "listed") if c in lines.columns]
    nodes = [c for c in ("node", "described", "runs_on") if c in lines.columns]
    if lines.is_empty() or not nodes:
        return pl.DataFrame(schema={"pod": pl.String, "node": pl.String})
    return lines.select(
        pl.coalesce(*named, "host").alias("pod"), pl.coalesce(*nodes).alias("node")
    ).drop_nulls()


def pods_on(frames: Frames, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pods that ran on nodes of these names, whatever their domain."""
    placed = pods(frames)
    node = pl.col("node").str.extract(r"^([^./]+)")
    short = [host.partition(".")[0] for host in hosts]
    return tuple(placed.filter(node.is_in(short))["pod"].unique().sort())
