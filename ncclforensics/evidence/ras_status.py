"""Ranks that NCCL's RAS names: behind in calls, or not answering.

A snapshot of a running job finds its ranks one call apart, so that alone is no
evidence. A rank is named if it is further behind, if a second report shows the same
counts, or if the job has failed otherwise. A rank that is behind here and ahead in
another communicator waits for another rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.traces import ras_members
from ncclforensics.evidence import common
from ncclforensics.model.actions import OWN_LOG, STACK, Action
from ncclforensics.model.findings import Collective, Finding
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.findings import Confidence
    from ncclforensics.model.frames import Frames

IN_STEP = 1  # calls that ranks of a healthy job may be apart
ONE = ["source", "line", "comm_id", "op"]

BEHIND = (
    "ask again: ncclras -v; a count that stands still is a hang",
    STACK,
)
GONE = (
    Action("dmesg -T | tail -n 100   # did the process end, and how?", at="host"),
    OWN_LOG,
    "ncclras -v   # again after a minute: DEAD, or back",
)


@needing(*ras_members.TOLD, otherwise=None)
def lagging(frames: Frames) -> Finding | None:
    """Return a finding on the few members of a communicator with fewer calls."""
    told = ras_members.reported(frames)
    counts = told.filter(pl.col("kind") == "count").with_columns(
        pl.col("operation").max().over(ONE).alias("most")
    )
    behind = counts.filter(
        (pl.col("operation") < pl.col("most")) & pl.col("comm_rank").is_not_null()
    )
    ahead = counts.filter(
        (pl.col("operation") == pl.col("most")) & pl.col("comm_rank").is_not_null()
    )
    late = behind.filter(
        ~pl.col("rank").is_in(ahead["rank"].drop_nulls().implode()).fill_null(False)
    )
    leaders = counts.filter(pl.col("operation") == pl.col("most"))["ranks"].sum()
    if late.is_empty() or late["comm_rank"].n_unique() >= max(leaders, 2):
        return None
    apart = (late["most"] - late["operation"]).max()
    still = counts.group_by("comm_id", "op", "comm_rank", "operation").agg(
        pl.struct("source", "line").n_unique().alias("seen")
    )
    repeated = bool((still.drop_nulls("comm_rank")["seen"] > 1).any())
    in_step = int(str(apart)) <= IN_STEP
    if in_step and not repeated and not job.signs_of_failure(frames):
        return None
    row = late.sort("operation", descending=True).row(0, named=True)
    op = row["op"] or "a call"
    return _finding(
        frames,
        "missing-rank",
        late,
        Collective(process_group=f"0x{row['comm_id']}", op=row["op"]),
        f"is behind: {row['operation']:,} {op} launched, others {row['most']:,}",
        "NCCL's RAS counts what each rank launched; the rank has not made the call "
        "that the others wait in.",
        BEHIND,
        "likely",
    )


@needing(*ras_members.TOLD, otherwise=0)
def unsettled(frames: Frames) -> int:
    """Count the reports that found members apart or silent, where none shows motion.

    They are of one moment, and a healthy job has such moments: they prove nothing, and
    nobody can call the job well by them.
    """
    told = frames.message(*ras_members.TOLD)
    if {"operation", "comm_id"} <= set(told.columns):
        most = told.group_by(*ONE[:3]).agg(pl.col("operation").max())
        if (most.drop_nulls().group_by("comm_id").n_unique()["operation"] > 1).any():
            return 0
    return 0 if job.ended_in_order(frames) else told.height


@needing(*ras_members.TOLD, otherwise=None)
def unanswered(frames: Frames) -> Finding | None:
    """Return a finding on the ranks whose process RAS declares dead or cannot reach."""
    told = ras_members.reported(frames)
    processes = told.filter(pl.col("kind") == "process").select("process", "node")
    missing = told.filter(pl.col("kind") == "missing").join(
        processes.unique(), on=["process", "node"], how="semi"
    )
    # a list without processes counts in full if that many processes are missing
    bare = told.filter((pl.col("kind") == "missing") & pl.col("process").is_null())
    if missing.is_empty() and bare["comm_rank"].n_unique() == processes.n_unique():
        missing = bare
        if processes.n_unique() == 1:
            only = told.filter(pl.col("kind") == "process")["host"][0]
            missing = missing.with_columns(pl.coalesce("host", pl.lit(only)))
    if missing.is_empty():  # a list of processes alone tells where, and of no rank
        missing = told.filter(pl.col("kind") == "process")
    if missing.is_empty():
        return None
    dead = not frames.message("ncclras.dead").is_empty()
    lost = frames["events"].filter(pl.col("role") == "victim").height > 0
    slug = "crashed-rank" if dead or lost else "missing-rank"
    row = missing.row(0, named=True)
    return _finding(
        frames,
        slug,
        missing,
        Collective(f"0x{row['comm_id']}") if row["comm_id"] else None,
        "no longer answers NCCL's RAS",
        "NCCL's RAS keeps a connection to every process of the job and "
        + ("declared this one dead." if dead else "has none to this one any more."),
        GONE,
        "likely",
    )


def _as_printed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the line of the table that says it, not that of its heading."""
    return rows.with_columns(
        pl.coalesce("said_line", "line").alias("line"),
        pl.coalesce("said", "text").alias("text"),
    )


def _finding(
    frames: Frames,
    slug: str,
    rows: pl.DataFrame,
    call: Collective | None,
    says: str,
    why: str,
    remedy: tuple[str | Action, ...],
    confidence: Confidence,
) -> Finding:
    known = not rows["rank"].has_nulls()
    ranks = common.numbers(rows["rank"]) if known else ()
    hosts = common.hosts(rows["host"])
    who = common.ranks(ranks) if known else f"a process on {common.named(hosts)}"
    return Finding(
        slug=slug,
        confidence=confidence,
        headline=f"{who} {says}",
        evidence=common.cites(_as_printed(rows)),
        explanation=f"{who[:1].upper()}{who[1:]} {says}. {why}",
        remedy=remedy,
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        collective=call,
        first_seen=common.first_seen(rows),
    )
