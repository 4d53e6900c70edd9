"""Ranks that never joined a communicator, according to NCCL's `Init` lines.

Since 2.23 a rank prints START as soon as it is called and then waits for all others, so
a rank without START did not come. Before, START follows the bootstrap, in which all
have met: then its absence proves nothing. No rank is named if lines may only be lost: a
log cut at its buffer, a stream that was copied in part, too few logs. If hosts chose
different networks, `wrong_nic` explains why they never met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import job
from ncclforensics.correlate.traces import communicators
from ncclforensics.evidence import common
from ncclforensics.model.actions import OWN_LOG, STACK
from ncclforensics.model.findings import Collective, Finding

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# printed once all ranks have met; after that, a hang has another cause
MET = (
    *("nccl.init.complete", "nccl.comm.layout", "nccl.bootstrap.timings"),
    *("nccl.init.connected", "nccl.init.timings"),
)
CHOSE = "nccl.net.selected"
AT_ONCE = (2, 23)  # the first version that prints START before the bootstrap
# with fewer logs than this share of a communicator, a silent rank may be a lost file
MOST = 2 / 3
FEWEST = 3

REMEDY = (
    OWN_LOG,
    STACK,
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET   # on all ranks",
)


def never_started(frames: Frames) -> Finding | None:
    """Return a finding on the few ranks that never began what nearly all wait in."""
    known = communicators.inits(frames)
    began = known.filter((pl.col("phase") == "START") & pl.col("key").is_not_null())
    if began.is_empty() or _bootstrapped_first(frames) or _cut(frames, began):
        return None
    met = frames.message(*MET).select(communicators.PROCESS).unique()
    # a communicator's ranks are global ranks only if it spans the job
    world = began.filter(pl.col("nranks") == pl.col("nranks").max())
    hung = world.join(met, on=communicators.PROCESS, how="anti", nulls_equal=True)
    for (_,), lines in hung.group_by("key", maintain_order=True):
        size = int(lines["nranks"][0])
        there = common.numbers(lines["comm_rank"])
        if len(there) < max(MOST * size, FEWEST):
            continue
        missing = tuple(sorted(set(range(size)) - set(there)))
        if not missing or _torn(frames, lines, began):
            continue
        if _unread(frames, began, missing):
            continue
        # a stream of many ranks may have been copied up to the middle of their START
        # lines
        shared = lines["source"].n_unique() < len(there)
        if shared and not job.signs_told(frames) and _ends_with(frames, lines):
            continue
        return _finding(frames, lines, missing)
    return None


def _bootstrapped_first(frames: Frames) -> bool:
    """Whether this NCCL version prints START only after the bootstrap."""
    told = frames.message("nccl.version")
    if "version" not in told.columns:
        return False
    numbers = told["version"].drop_nulls().unique().str.extract_all(r"\d+").to_list()
    found = [tuple(map(int, parts[:2])) for parts in numbers]
    return bool(found) and min(found) < AT_ONCE


def _cut(frames: Frames, lines: pl.DataFrame) -> bool:
    """Whether one of these logs ends where its buffer was full."""
    mine = frames["sources"].filter(
        pl.col("source").is_in(lines["source"].unique().implode())
    )
    full = (pl.col("bytes") % job.BUFFER == 0) & (pl.col("bytes") > 0)
    return not mine.filter(pl.col("cut") & full).is_empty()


def _unread(frames: Frames, began: pl.DataFrame, missing: tuple[int, ...]) -> bool:
    """Whether the lines of a missing rank may be in what a log has lost."""
    logs = frames["sources"].filter(pl.col("kind").is_in(["log", "empty"]))
    alone = began.group_by("source").agg(pl.col("comm_rank").n_unique())
    read = alone.filter(pl.col("comm_rank") == 1)["source"]
    others = logs.filter(~pl.col("source").is_in(read.implode()))
    own = logs.filter(pl.col("rank").is_in(missing))
    empty = own.height > 0 and bool((own["bytes"] == 0).all())
    return bool(others["cut"].any()) or empty


def _torn(frames: Frames, lines: pl.DataFrame, began: pl.DataFrame) -> bool:
    """Whether lines are lost: NCCL prints its choice of a network before START.

    So each process with START has printed a choice, and each with a choice has START.
    """
    process = communicators.PROCESS
    chose = frames.message(CHOSE, *MET).select(process).unique()
    if frames.message(CHOSE).is_empty():
        return False
    silent = lines.join(chose, on=process, how="anti", nulls_equal=True)
    nameless = chose.join(began, on=process, how="anti", nulls_equal=True)
    return silent.height > 0 or nameless.height > 0


def _ends_with(frames: Frames, lines: pl.DataFrame) -> bool:
    """Whether no recognized line follows these lines in their stream."""
    last = lines.group_by("source").agg(pl.col("line").max().alias("last"))
    later = (
        frames["events"].join(last, on="source").filter(pl.col("line") > pl.col("last"))
    )
    return later.is_empty()


def _finding(frames: Frames, lines: pl.DataFrame, ranks: tuple[int, ...]) -> Finding:
    call = Collective(process_group=str(lines["key"][0]), op="init")
    who = common.ranks(ranks)
    hosts = common.hosts_of(frames, ranks)
    where = common.on(hosts)
    silent = frames["events"].filter(
        pl.col("rank").is_in(ranks) & pl.col("message").str.starts_with("nccl.")
    )
    says = (
        "It loaded NCCL and did not call it for this communicator."
        if silent.height
        else "It printed no NCCL line."
    )
    joined = common.call_words(call)
    count = lines["comm_rank"].n_unique()
    return Finding(
        slug="missing-rank",
        confidence="likely",
        headline=f"{who} never joined {joined}",
        evidence=common.cites(lines),
        explanation=f"{who.capitalize()}{where} never reached {joined}: the other "
        f"{count:,} printed Init START and nothing after it. {says}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=hosts,
        devices=common.devices_of(frames, ranks),
        collective=call,
        first_seen=common.first_seen(lines),
    )
