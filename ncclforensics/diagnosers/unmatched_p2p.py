"""A send without its receive, or a receive without its send.

What it means
    Point-to-point calls match by source, destination and order. One side posted its
    half and waits; the other never posts the one that would match.

How we know
    A rank is held up in a send or recv whose other side has not posted its half and
    has gone on: it waits in a collective for the very rank that waits for it, or it
    made the calls that used to follow that half. The side that did not post is named:
    all ranks of its stage that did so, each in its own pipeline.

What to do
    Compare the schedules of the two stages at the call site: micro-batch counts, the
    order of send and recv, a condition on the stage.

Looks like
    Two sides that both send first are a `call-order-deadlock`: neither has gone on, and
    the receives may be to come.
    A pair that only waits for its pipeline stage: there the other side is itself held
    up in another call, and the root lies where that leads.
    A rank that stopped making calls altogether is `missing-rank`.

References
    torch.distributed.send, recv and batch_isend_irecv.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from ncclforensics.correlate.held import OTHER_SIDE
from ncclforensics.diagnosers.clues import (
    common,
    divergence,
    halves,
    left_out,
    programs,
    roots,
    unrecorded,
)
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Cite, Statement
    from ncclforensics.frames import Frames

FAMILY = "desync"
NEEDS = ("collectives",)
MISSING = "no Flight Recorder dump"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank")
SPREADS = True

BEFORE = 2  # earlier calls with a message each, for one without to be odd

REMEDY = ("compare the order of sends and receives of both ranks at the call site",)


class Silent(NamedTuple):
    """Ranks that owe the half that a call waits for, and words for what they did."""

    call: dict[str, Any]
    ranks: tuple[int, ...]
    did: str
    before: str = ""
    after: str = ""


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the side of a P2P call that posted nothing and went on without it."""
    for silent in _together(frames, list(_silent(frames))):
        it = "It" if len(silent.ranks) == 1 else "Each"
        told = f"{silent.before}{it} {silent.did}{silent.after}"
        yield _finding(frames, silent.call, silent.ranks, told)
    yield from _unrecorded(frames)


def _together(frames: Frames, found: list[Silent]) -> Iterator[Silent]:
    """Join what the ranks of one stage left out, each in a pipeline of its own."""
    stages = left_out.stages(frames, [silent.call for silent in found])
    parallel = defaultdict(list)
    for silent in found:
        parallel[stages[silent.call["call"]]].append(silent)
    for same in parallel.values():
        waiting = sorted({rank for silent in same for rank in silent.call["waiting"]})
        yield same[0]._replace(
            call={**same[0].call, "waiting": waiting},
            ranks=tuple(sorted({rank for silent in same for rank in silent.ranks})),
        )


def _silent(frames: Frames) -> Iterator[Silent]:
    for call, ranks, blocked in roots.by_call(frames, "absent"):
        if call["is_p2p"] and programs.skipped(frames, call, ranks):
            told = roots.spread(frames, call, ranks, blocked)
            yield Silent(call, ranks, "waits for nobody.", f"{told} ")
    for call, ranks, blocked in _stuck(frames):
        if _halved(frames, call, ranks) or halves.has_fewer_open(
            frames, call, ranks[0]
        ):
            told = roots.spread(frames, call, ranks, blocked)
            did = "is in the other half of that exchange, and posted this one never."
            yield Silent(call, ranks, did, f"{told} ")
    for found in divergence.divergences(frames):
        if found.kind == "message":
            did = "went on" + divergence.elsewhere(frames, found)
            behind = roots.others_behind(frames, found.ranks)
            yield Silent(found.call, found.odd, did, after=behind)
    for call, ranks in _beside_unseen(frames):
        behind = roots.others_behind(frames, ranks)
        yield Silent(call, ranks, "went on without it.", after=behind)


def _stuck(frames: Frames) -> Iterator[tuple[dict[str, Any], tuple[int, ...], int]]:
    """Yield the messages that wait for a root's half, which is stuck in a call itself.

    That root, as the only one that is `ranks`, and how many are blocked.
    """
    for _, ranks, blocked in roots.by_call(frames, "stuck"):
        for rank in ranks:
            missing = pl.col("is_p2p") & (pl.col("absent") == [rank])
            for call in frames["calls"].filter(missing).to_dicts():
                yield call, (rank,), blocked


def _halved(frames: Frames, call: dict[str, Any], ranks: tuple[int, ...]) -> bool:
    """Whether a rank posted only one half of an exchange that used to be one batch.

    `call` is the half that its peer waits in; both are in the other half, which ends
    with the batch of the peer.
    """
    if not call["is_p2p"] or len(ranks) != 1 or {*ranks} != {*call["absent"]}:
        return False
    calls = frames["calls"].filter(
        (pl.col("group") == call["group"]) & (pl.col("call") != call["call"])
    )
    pair = {*ranks, *call["waiting"]}
    if not any(pair == {*here} for here in calls.filter("is_p2p")["waiting"]):
        return False
    batches = (
        programs.program(frames, ranks[0])
        .filter(
            pl.col("op").is_in(list(OTHER_SIDE)) & (pl.col("group") == call["group"])
        )
        .with_columns(
            pl.min_horizontal("src", "dst").alias("low"),
            pl.max_horizontal("src", "dst").alias("high"),
        )
        .group_by("seq", "p2p_seq", "low", "high")
        .agg(pl.col("op").n_unique().alias("halves"), pl.col("record_id").max())
        .drop_nulls("p2p_seq")
        .sort("record_id")["halves"]
    )
    return batches.len() > 1 and batches[-1] == 1 and batches[:-1].max() == 2


def _beside_unseen(frames: Frames) -> list[tuple[dict[str, Any], tuple[int, ...]]]:
    """Return the message that one stage left out, where waits end at an unseen rank.

    Those close no circle and have no root, but both sides of that message are seen, and
    the one that left it out waits in a collective.
    """
    calls = frames["calls"]
    unseen = calls["unseen"].explode().drop_nulls()
    if unseen.is_empty() or frames["roots"].height or divergence.divergences(frames):
        return []
    is_p2p = pl.col("is_p2p").fill_null(False)
    went_on = calls.filter(~is_p2p)["waiting"].explode().drop_nulls().unique()
    gone = pl.col("absent").list
    talk = calls.filter(
        is_p2p & (gone.len() == 1) & gone.first().is_in(went_on.implode())
    )
    found = [
        (call, tuple(call["absent"]))
        for call in talk.head(divergence.SAMPLE_CALLS).to_dicts()
        if programs.skipped(frames, call, call["absent"])
    ]
    is_one = left_out.is_one_stage(frames, [call for call, _ in found])
    return found if is_one else []


def _unrecorded(frames: Frames) -> Iterator[Finding]:
    """Find the rank that left out a message where messages are not recorded.

    Gloo counts them among its operations all the same. A member that is absent and
    timed out waits in a message; the one that made some before each of its earlier
    calls, and none before the last, is the other side.
    """
    absent = frames["roots"].filter(
        pl.col("why").is_in(["absent", "mute"])
        & pl.col("rank").is_in(unrecorded.timed_out(frames))
    )
    for number, waiters in absent.group_by("call").agg("rank").iter_rows():
        call = frames["calls"].row(number, named=True)
        made = (
            frames.scan("collectives")
            .filter(
                pl.col("rank").is_in(call["waiting"])
                & (pl.col("backend") == "gloo")
                & pl.col("pg").eq_missing(call["pg"])
                & (pl.col("seq") <= call["seq"])
            )
            .collect()
        )
        step = [pl.col(c).diff().over("rank") for c in ("op_id", "seq")]
        gaps = (
            made.sort("rank", "seq")
            .with_columns((step[0] - step[1]).alias("gap"))
            .drop_nulls("gap")
            .filter(pl.len().over("rank") >= BEFORE)
            .group_by("rank")
            .agg(
                pl.col("gap").last(),
                pl.col("gap").slice(0, pl.len() - 1).min().alias("usual"),
            )
        )
        ranks = common.numbers(
            gaps.filter((pl.col("gap") == 0) & (pl.col("usual") > 0))["rank"]
        )
        message = {"op": "recv", "seq": None, "stack": None}
        lines = frames.message(*unrecorded.TIMEOUTS)
        spoke = lines.filter(pl.col("rank").is_in(waiters))
        if len(ranks) == 1:
            yield _finding(
                frames,
                {**call, **message, "waiting": sorted(waiters)},
                ranks,
                "Before each of its earlier calls it had made a message, before this "
                "one it made none.",
                (*common.cites(spoke), *roots.waiting(frames, call, ranks)),
            )
            return


def _finding(
    frames: Frames,
    call: dict[str, Any],
    ranks: tuple[int, ...],
    told: str,
    evidence: tuple[Cite, ...] = (),
) -> Finding:
    failing = common.collective(frames, call)
    who = common.plural("rank", ranks)
    other = "recv" if failing.op == "send" else "send"
    peer = common.plural("rank", call["waiting"])
    waits, it = ("waits", "it") if len(call["waiting"]) == 1 else ("wait", "them")
    return Finding(
        slug="unmatched-p2p",
        confidence="likely",
        headline=f"{who} never posted the {other} that {peer} {waits} for",
        evidence=evidence or roots.waiting(frames, call),
        explanation=f"{peer.capitalize()} {waits} in {common.call_words(failing)}, and "
        f"{who} posted no {other} for {it}. {told}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=roots.onset(frames, call),
    )
