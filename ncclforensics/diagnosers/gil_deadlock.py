"""One rank's Python is blocked because a thread never releases the GIL.

What it means
    A thread holds the GIL and does not release it: a native extension, a data loader,
    or a CUDA call that never returns. No Python code runs on that rank, so it makes no
    calls, and its peers wait for it. Even its dump holds less, because recording stacks
    needs the GIL.

How we know
    The rank is absent from calls that its peers wait in, and its Flight Recorder dump
    lacks what theirs have: it has no stacks; or it has no entries, although its own
    counters show that it made calls and its peers' dumps hold finished calls. Or the
    heartbeat monitor of this rank, out of many, says that the watchdog got stuck; with
    `Could not acquire GIL` next to it this is likely, as a CUDA or NCCL call that hangs
    looks the same.

What to do
    Look at all threads of that process: `py-spy dump --native --pid PID`, or
    `gdb -p PID -ex 'thread apply all bt'`. Suspect native code that holds the GIL
    during a CUDA synchronisation.

Looks like
    If the monitor fires on most ranks, all of them wait in one call. If it fires on a
    rank whose own collective timed out before, that rank is a victim. `Could not
    acquire GIL` alone is printed at many ordinary teardowns.
    Dumps that hold only active calls are empty wherever nothing is unfinished: an
    absent rank with such a dump is `missing-rank`.

References
    torch ProcessGroupNCCL heartbeat monitor; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import call_summary
from ncclforensics.evidence import common, heartbeat_monitor
from ncclforensics.model import wanted
from ncclforensics.model.actions import NATIVE_STACK, OWN_LOG, Action
from ncclforensics.model.findings import Cite, Finding
from ncclforensics.model.folding import are
from ncclforensics.model.tables import done
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "runtime"
NEEDS = ("standings", "c10d.heartbeat")
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = ("missing-rank", "unmatched-p2p", "timeout-masking", "crashed-rank")
SPREADS = True
TOLD_WITHIN_S = 1800  # the longest usual wait of a heartbeat monitor

SHARE = 0.5  # of the dumps must have what this rank's dump lacks

REMEDY = (
    NATIVE_STACK,
    Action("gdb -p {pid} -batch -ex 'thread apply all bt'", at="process", only="alive"),
    OWN_LOG,
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name absent ranks whose dump lacks what the dumps of their peers have."""
    poor = _poor(frames)
    # an absent rank with a dump like its peers' is the one to look at first
    found = [
        told
        for told in weighed(frames).of("missing-rank", "crashed-rank", "node-lost")
        if told.story.call is not None and {*told.story.ranks} <= poor.keys()
    ]
    if not found:
        yield from heartbeat_monitor.stuck(frames)
        return
    call, blocked = found[0].story.call, len(found[0].end.blocked)
    assert call is not None
    ranks = tuple(sorted({rank for told in found for rank in told.story.ranks}))
    failing = common.collective(frames, call)
    who = common.ranks(ranks)
    lacks = poor[ranks[0]]
    sources = call_summary.dumps(frames).filter(pl.col("rank").is_in(ranks))
    yield Finding(
        slug="gil-deadlock",
        # a dump may lack them for other reasons, and the job may run
        confidence="possible" if _are_only_possible(found) else "likely",
        headline=f"{who} {are(len(ranks))} stuck, with a dump that has no {lacks}: "
        f"{common.call_words(failing)} waits",
        evidence=(
            *(
                Cite(source, None, f"rank {rank}: a dump without {lacks}")
                for source, rank in sources.select("source", "rank").iter_rows()
            ),
            *wording.waiting(frames, call),
        ),
        explanation=f"{wording.spread(frames, call, blocked)} "
        f"{who.capitalize()} did not make that call, and its dump has no {lacks} where "
        "its peers' dumps have: Python did not run when it was written.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=wording.onset(frames, call),
    )


def _are_only_possible(found: list[Told]) -> bool:
    """Whether nothing proves that the job stands in the calls of these stories."""
    return all(told.confidence == "possible" for told in found)


def _poor(frames: Frames) -> dict[int, str]:
    """Return by rank what its dump lacks, "stacks" or "entries", unlike most others'.

    Only pickles hold stacks, and of some calls nobody's does, as of those that autograd
    makes. A truncated dump does not count: what it lacks may be in the lost part. If no
    dump holds a finished call, finished calls were not dumped, and a dump without
    entries says nothing. A dump that counts open calls comes from a rank that waits.
    """
    dumps = call_summary.dumps(frames).filter(pl.col("bytes") > 0).drop_nulls("rank")
    made = (
        frames.scan("collectives")
        .select("rank", "op", "stack", "state", "retired", "backend")
        .group_by("rank", "op")
        .agg(
            pl.col("stack").is_not_null().any().alias("stacks"),
            done().any().alias("over"),
        )
        .collect()
    )
    usual = made.group_by("op").agg(pl.col("stacks").mean() >= SHARE)
    shown = pl.col("op").is_in(usual.filter("stacks")["op"].implode())
    lacks = made.filter(shown & ~pl.col("stacks"))["rank"]
    made = made.group_by("rank").agg(pl.col("stacks", "over").any())
    whole = ~pl.col("cut").fill_null(False)
    told = dumps.select("rank", "kind", "cut").join(made, on="rank", how="left")
    counted = frames["standings"].filter(
        pl.col("enqueued").is_not_null() & (pl.col("enqueued") > 0)
    )["rank"]
    poor: dict[int, str] = {}
    pickles = told.filter(pl.col("kind") == "flight_recorder_pickle")
    with_stacks = pickles.filter(pl.col("stacks").fill_null(False)).height
    if with_stacks and with_stacks >= SHARE * pickles.height:
        bare = pickles.filter(pl.col("stacks").eq_missing(False) & whole)
        bare = bare.filter(pl.col("rank").is_in(lacks.implode()))
        poor.update(dict.fromkeys(common.numbers(bare["rank"]), "stacks"))
    with_done = told.filter(pl.col("over").fill_null(False)).height
    if with_done and with_done >= SHARE * told.height:
        void = told.filter(pl.col("over").is_null() & whole)["rank"]
        known = counted if void.is_empty() else pl.concat([counted, _proved(frames)])
        held = call_summary.emptied(frames)
        void = void.filter(void.is_in(known.implode()) & ~void.is_in(held.implode()))
        poor.update(dict.fromkeys(common.numbers(void), "entries"))
    return poor


def _proved(frames: Frames) -> pl.Series:
    """Return the members of groups with a finished call: all of them made it."""
    over = call_summary.outline(frames).filter(done()).select("pg", "pg_desc").unique()
    groups = frames["groups"].join(over, on=["pg", "pg_desc"], how="semi")
    return groups["members"].explode().drop_nulls()
