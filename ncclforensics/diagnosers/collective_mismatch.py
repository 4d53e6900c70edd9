"""Ranks of one group are in different collectives at the same sequence number.

What it means
    The n-th call of a group has to be the same operation on every member. Here some
    ranks call one and some another, usually because a branch depends on the rank, on
    data, or on which of two code paths a rank took. Nothing can match these calls, so
    the job hangs, corrupts data, or fails at the check of TORCH_DISTRIBUTED_DEBUG.

How we know
    Flight Recorder dumps hold different operations under one SeqNum of one group; or
    torch says `Detected mismatch between collectives on ranks` and prints both sides;
    or watchdogs name different OpTypes for one SeqNum. Of dumps each side is weighed:
    the fewer ranks, and those whose calls left the usual order of the program, are the
    likelier ones; where as much speaks against one side as against the other, both are
    named. Of torch's lines the ranks are counted, and the minority is named.

What to do
    Compare the call sites of both sides. TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch
    check each call before it starts, at the cost of speed.

Looks like
    A rank one call ahead because it skipped one, or behind because it made one more, is
    `missing-rank` or `rank-conditional-collective`: there its next calls are the usual
    ones, one place off. DETAIL's `SequenceNumber=1` against 0 for a barrier is its own
    flaw, and the operation it prints for the other side is wrong where sizes differ.

References
    torch ProcessGroupWrapper.cpp; Flight Recorder tutorial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common, fingerprints
from ncclforensics.findings import Collective, Finding
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import case_of, weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Confidence, Statement
    from ncclforensics.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = (
    *("collectives", "positions", "c10d.fingerprint"),
    "nccl.collective_mismatch",
)
MISSING = "no dump, and no TORCH_DISTRIBUTED_DEBUG=DETAIL"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000, or TORCH_DISTRIBUTED_DEBUG=DETAIL for a rerun"
EXPLAINS = ("missing-rank", "shape-mismatch", "timeout-masking", "crashed-rank")
SPREADS = True

NCCL_SAW = ("nccl.collective_mismatch.detected",)
# it waits for long, and this is what NCCL takes for the likeliest reason
NCCL_FEARS = ("nccl.collective_mismatch",)
# headline and explanation of a library's own check
TORCH = (
    "torch detected different collectives at one SeqNum",
    "torch's check of each call failed. Only one side can be read in this evidence (up "
    "to torch 1.12 no other was printed), so nobody is named.",
)
NCCL = (
    "NCCL saw ranks make different calls",
    "NCCL (up to 2.7) compared the calls of neighbours and found them to differ in "
    "operation or size. The rank it prints is where it noticed; that one or a "
    "neighbour is odd.",
)

REMEDY = (
    "compare the call sites of both sides: which condition makes them differ?",
    "export TORCH_DISTRIBUTED_DEBUG=DETAIL",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks whose operation is the odd one, at the first such call."""
    for told in weighed(frames).of("collective-mismatch")[:1]:
        yield _told(frames, told)
        return
    if sides := fingerprints.sides(frames, "op"):
        yield _printed(frames, sides)
        return
    lines = _unlike(frames.message("c10d.fingerprint"))
    if lines.height and not fingerprints.sides(frames, "shape"):
        yield _one_sided(lines, *TORCH)
        return
    seen, feared = frames.message(*NCCL_SAW), frames.message(*NCCL_FEARS)
    if seen.height:
        yield _one_sided(seen, *NCCL)
    elif feared.height:
        yield _one_sided(feared, *NCCL, confidence="likely")


def _unlike(lines: pl.DataFrame) -> pl.DataFrame:
    """Drop the lines whose two sides are one operation without a tensor.

    They differ in the count that a fingerprint carries, which torch's own barrier is
    known to get wrong.
    """
    if "is_peer" not in lines.columns or "shape" not in lines.columns:
        return lines
    place = ["source", "line"]
    sides = pl.len().over(place)
    same = (pl.col("op").n_unique().over(place) == 1) & (sides > 1)
    bare = pl.col("shape").is_null().all().over(place)
    return lines.filter(~(same & bare & pl.col("op_reliable").fill_null(True)))


def _one_sided(
    lines: pl.DataFrame,
    headline: str,
    explanation: str,
    confidence: Confidence = "certain",
) -> Finding:
    """Report the word of a library on a mismatch of which it shows one side at most."""
    return Finding(
        slug="collective-mismatch",
        confidence=confidence,
        headline=headline,
        evidence=common.cites(lines),
        explanation=explanation,
        remedy=REMEDY,
        first_seen=common.first_seen(lines),
    )


def _told(frames: Frames, told: Told) -> Finding:
    """Tell of the sides that dumps or watchdogs show."""
    call, ranks = told.story.call, told.story.ranks
    assert call is not None
    sides = case_of(frames).signatures[call["call"]]
    usual = max(sides, key=lambda side: len(side.ranks))
    alone = [side for side in sides if {*side.ranks} <= {*ranks}]
    listed = "; ".join(
        f"{common.plural('rank', side.ranks)} in {side.what}" for side in sides
    )
    tie = told.story.what == "tie"
    headline = (
        " against ".join(
            f"{side.what} on {common.plural('rank', side.ranks)}" for side in sides[:2]
        )
        if tie or not alone
        else f"{common.plural('rank', ranks)} called {alone[0].what} where others "
        f"called {usual.what}"
    )
    return wording.finding(
        frames,
        told,
        headline[:200],
        f"At {common.call_words(common.collective(frames, call))} the members are in "
        f"different operations: {listed}."
        + (" No side is the smaller one." if tie else ""),
        REMEDY,
        tuple(cite for side in sides[:2] for cite in side.cites),
    )


def _printed(frames: Frames, sides: list[tuple[str, pl.DataFrame]]) -> Finding:
    """Tell of the sides that torch's own check of each call printed."""
    (small, few), (large, _) = sides[0], sides[-1]
    ranks = {what: common.numbers(votes["rank"]) for what, votes in sides}
    tie = len(ranks[small]) == len(ranks[large])
    unheard = fingerprints.is_open(frames, sides)
    odd = (
        tuple(sorted(r for some in ranks.values() for r in some))
        if tie
        else ranks[small]
    )
    odd = () if unheard else odd
    listed = "; ".join(
        f"{common.plural('rank', some)} in {what}" for what, some in ranks.items()
    )
    row = few.row(0, named=True)
    call = Collective(row["pg"], row["pg_desc"], row["seq"], small)
    why = (
        " Not all ranks were heard, so which side is the smaller one is not known."
        if unheard
        else " No side is the smaller one."
        if tie
        else ""
    )
    votes = pl.concat([votes for _, votes in sides])
    return Finding(
        slug="collective-mismatch",
        confidence="certain",
        headline=(
            f"{small} on {common.plural('rank', ranks[small])} against {large} on "
            f"{common.plural('rank', ranks[large])}"
            if tie or unheard
            else f"{common.plural('rank', odd)} called {small} where others called "
            f"{large}"
        )[:200],
        evidence=tuple(
            cite for _, some in (sides[0], sides[-1]) for cite in common.cites(some, 3)
        ),
        explanation=f"At {common.call_words(call)} the members are in different "
        f"operations: {listed}.{why}",
        remedy=REMEDY,
        ranks=odd,
        hosts=common.hosts_of(frames, odd),
        devices=common.devices_of(frames, odd),
        collective=call,
        first_seen=common.first_seen(votes),
    )
