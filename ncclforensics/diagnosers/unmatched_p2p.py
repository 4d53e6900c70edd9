"""A send without its receive, or a receive without its send.

What it means
    Point-to-point calls match by source, destination and order. One side posted its
    half and waits. The other side never posts the half that would match.

How we know
    A rank is blocked in a send or recv whose other side has not posted its half, and
    that other side waits elsewhere or for nobody. Between two collectives that both
    ranks made, the other side posted fewer halves; or by its earlier calls it skipped
    this one and went on. Equal counts speak against it. The side that did not post is
    named: all ranks of its stage that did so, each in its own pipeline. Lines of
    timeouts do not name the peer: there it is the only member of the group that waits
    in no message of it.

What to do
    Compare the schedules of the two stages at the call site: micro-batch counts, the
    order of send and recv, a condition on the stage.

Looks like
    Two sides that both send first are a `call-order-deadlock`: neither has gone on, and
    the receives may still come.
    A pair that only waits for its pipeline stage: there the other side is itself
    blocked in another call, and the root cause is where that call leads.
    A rank that stopped making calls altogether is `missing-rank`.

References
    torch.distributed.send, recv and batch_isend_irecv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.evidence import common, gloo_blind_spots
from ncclforensics.model import wanted
from ncclforensics.model.actions import DUMPS, Action
from ncclforensics.model.findings import Finding, NotChecked
from ncclforensics.theory import strayed_messages, wording
from ncclforensics.theory.weigh import case_of, weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Cite, Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = ("calls", "collectives", "positions")
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank")
SPREADS = True

BEFORE = 2  # earlier calls that must each have had a message

REMEDY = (
    Action(
        "compare the order of sends and receives of both ranks at {site}",
        "compare the order of sends and receives of both ranks",
    ),
    DUMPS,
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that never posted their half of a message."""
    found = weighed(frames).joined("unmatched-p2p")
    if (told := found) is not None:
        call = told.story.call
        assert call is not None
        ranks = told.story.ranks
        if told.story.what:
            yield _strayed(frames, told, call)
            return
        owed = [c for c in (call, *told.story.others) if {*c["absent"]} & {*ranks}]
        talk = [c for c in owed if c["is_p2p"]] or [call]
        waiters = sorted({rank for c in talk for rank in c["waiting"]})
        # lines of timeouts do not name the peer of a message
        shared = any(len(c["waiting"]) > 1 for c in talk)
        whole = {**call, "waiting": waiters}
        headline, explanation = _words(frames, whole, ranks, shared=shared)
        yield wording.finding(
            frames,
            told,
            headline,
            f"{explanation} "
            f"{wording.spread(frames, call, len(told.end.blocked))} "
            f"{common.ranks(ranks).capitalize()} went on"
            f"{wording.elsewhere(frames, told)}",
            REMEDY,
            wording.waiting(frames, call),
        )
    if found is None and not frames.has("collectives"):
        yield NotChecked("unmatched-p2p", MISSING, NEXT_TIME)
    elif found is None:
        yield from _unrecorded(frames)


def _strayed(frames: Frames, told: Told, call: dict[str, Any]) -> Finding:
    """Return the finding on ranks whose program shows which message is missing."""
    headline, explanation = strayed_messages.words(case_of(frames), told.story)
    behind = wording.spread(frames, call, len(told.end.blocked))
    return wording.finding(
        frames,
        told,
        headline,
        f"{explanation} {behind}",
        REMEDY,
        wording.waiting(frames, call, told.story.ranks),
    )


def _words(
    frames: Frames,
    call: dict[str, Any],
    ranks: tuple[int, ...],
    *,
    shared: bool = False,
) -> tuple[str, str]:
    """Return headline and first sentence: which rank posted no half for which peer.

    If `shared`, those that wait may wait for each other, too.
    """
    failing = common.collective(frames, call)
    who = common.ranks(ranks)
    other = "recv" if failing.op == "send" else "send"
    peer = common.ranks(call["waiting"])
    waits, it = ("waits", "it") if len(call["waiting"]) == 1 else ("wait", "them")
    in_it = f"{peer.capitalize()} {waits} in {common.call_words(failing)}"
    if shared:
        return (
            f"{who} posted no send or recv that {peer} wait for",
            f"{in_it}, for each other or for {who}, the only member that does not.",
        )
    return (
        f"{who} never posted the {other} that {peer} {waits} for",
        f"{in_it}, and {who} posted no {other} for {it}.",
    )


def _unrecorded(frames: Frames) -> Iterator[Finding]:
    """Find the rank that left out a message, if messages are not recorded.

    Gloo does not record messages, but counts them among its operations. An absent
    member that timed out waits in a message. The other side made more messages before
    each of its earlier calls than before its last.
    """
    absent = frames["roots"].filter(
        pl.col("why").is_in(["absent", "mute"])
        & pl.col("rank").is_in(gloo_blind_spots.timed_out(frames))
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
        short = gaps.select("rank", pl.col("usual") - pl.col("gap"))
        ranks = _owing(dict(short.sort("rank").iter_rows()), len(waiters))
        lines = frames.message(*gloo_blind_spots.TIMEOUTS)
        spoke = lines.filter(pl.col("rank").is_in(waiters))
        halves = {*spoke["call"].drop_nulls()} if "call" in spoke.columns else set()
        op = halves.pop() if len(halves) == 1 else "recv"
        told = "Before each earlier call it sent or received a message; before this "
        told += "one it did not."
        unmet = gloo_blind_spots.unmet(frames, waiters)
        as_usual = short.filter(pl.col("usual") <= 0).height == len(call["waiting"])
        if as_usual and unmet.height == 1:
            # nobody but the two left anything out
            waiter, half, peer = unmet.select("rank", "half", "peer").row(0)
            waiters, ranks, op = [waiter], (peer,), half
            told = "It waits in another message, whose other side nobody left out."
            spoke = lines.filter(pl.col("rank").is_in([waiter, peer]))
        message = {"op": op, "seq": None, "stack": None}
        if len(ranks) == 1:
            yield _finding(
                frames,
                {**call, **message, "waiting": sorted(waiters)},
                ranks,
                told,
                (*common.cites(spoke), *wording.waiting(frames, call, ranks)),
            )
            return


def _owing(short: dict[int, int], waiters: int) -> tuple[int, ...]:
    """Return the ranks that may have left out a half for which a waiter waits.

    `short` is how many messages less than usual each rank made. A message that both
    sides left out is missing on both: without the halves that are waited for, the rest
    has to be such pairs.
    """
    return tuple(
        rank
        for rank, many in short.items()
        if any(
            _are_pairs([n - owed * (r == rank) for r, n in short.items()])
            for owed in range(1, min(many, waiters) + 1)
        )
    )


def _are_pairs(missing: list[int]) -> bool:
    """Whether ranks that miss as many messages may all miss them between each other."""
    left = [max(n, 0) for n in missing]
    return sum(left) % 2 == 0 and 2 * max(left) <= sum(left)


def _finding(
    frames: Frames,
    call: dict[str, Any],
    ranks: tuple[int, ...],
    told: str,
    evidence: tuple[Cite, ...],
) -> Finding:
    headline, explanation = _words(frames, call, ranks)
    return Finding(
        slug="unmatched-p2p",
        confidence="likely",
        headline=headline,
        evidence=evidence,
        explanation=f"{explanation} {told}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=common.collective(frames, call),
        first_seen=wording.onset(frames, call),
    )
