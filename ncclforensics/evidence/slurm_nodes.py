"""Nodes that Slurm's tables list as lost: `scontrol show node`, `sinfo -R`, `sinfo -N`.

The tables list every node of the cluster, and some node is always down. So a node
counts only if the job ran on it, as far as its hosts are known, and not if it was down
long before the job's first line. What a person wrote as the reason of a drain is not
proof of a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import external_stop
from ncclforensics.model.tables import with_nulls

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

TABLES = ("slurm.node", "slurm.sinfo.reasons", "slurm.sinfo.down")
# slurmctld's own words for a node that it lost
LOST = r"^(?:Not responding|Node unexpectedly rebooted)"
DOWN = r"(?i)down|not_responding|fail|unk"
# local times without a zone differ by less than a day
ZONES = pl.duration(hours=24)


def lost(frames: Frames) -> pl.DataFrame:
    """Return the rows of TABLES on nodes of this job that Slurm lost.

    Returns all such rows if no host of the job is known.
    """
    told = external_stop.slurm_time(frames.message(*TABLES))
    if told.is_empty():
        return told
    captures = dict.fromkeys(("reason", "node_state", "state"), pl.String())
    told = with_nulls(told, captures)
    state = pl.coalesce("node_state", "state", pl.lit("down"))
    reason = pl.coalesce("reason", pl.lit("Not responding"))
    told = told.filter(reason.str.contains(LOST) & state.str.contains(DOWN))
    if "below" in told.columns:
        told = told.with_columns(
            pl.coalesce("node_line", "text").alias("text"),
            pl.col("line") + pl.col("below").fill_null(0),
        )
    ours = hosts_of_job(frames)
    if ours:
        short = pl.col("host").str.extract(r"^([^.]+)")
        told = told.filter(pl.col("host").is_in(ours) | short.is_in(ours))
    first = _others(frames)["t"].min()
    if first is None:
        return told
    early = pl.col("t") < pl.lit(first).cast(told["t"].dtype) - ZONES
    return told.filter(~early.fill_null(False))


def hosts_of_job(frames: Frames) -> list[str]:
    """Return the hosts that evidence other than those tables shows, and node lists."""
    told = [frames["ranks"]["host"], _others(frames)["host"]]
    jobs = frames.message("slurm.state", "slurm.sacct.ended")
    if "nodes" in jobs.columns:
        told.append(jobs["nodes"].explode().cast(pl.String))
    return sorted(pl.concat(told).drop_nulls().unique().to_list())


def _others(frames: Frames) -> pl.DataFrame:
    return frames["events"].filter(~pl.col("message").is_in(TABLES))
