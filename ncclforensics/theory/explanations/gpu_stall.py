"""Ranks whose GPU has not finished, or not begun, a call as its peers have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.progress import ROOTED
from ncclforensics.evidence import gloo_blind_spots
from ncclforensics.theory import sides, standstill
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame ranks left in a call that others finished, or that have not begun it."""
    stalled = end.kind == "stalled"
    for number in end.calls:
        call = case.calls[number]
        unstarted = tuple(call["unstarted"] or ())
        unbegun = end.kind == "full" and not unstarted
        if stalled:
            ranks = tuple(call["waiting"])
            if not _holds_up(case, end, ranks):
                continue
        elif end.kind == "unstarted" or (end.kind == "full" and unstarted):
            ranks = unstarted
        elif unbegun and _stands_unbegun(case, number):
            ranks = tuple(call["waiting"])
        else:
            continue
        blame = sides.blame(case, end, "gpu-stall", ranks)
        yield Story(
            "gpu-stall",
            ranks,
            call,
            what="unbegun" if unbegun else end.kind,
            costs=(
                # most of them may stop where they stop as one
                *(cost for cost in blame if not (unbegun and cost[0] == "most")),
                ("older", float(_is_older(case, call, ranks))),
                ("early file", float(bool({*ranks} & case.early))),
                # who made another call under its number finished nothing of this one
                ("unlike signature", float(number in case.signatures)),
                # in a rooted call, one of several ranks may wait for another
                ("rooted", 2.0 * (stalled and _is_rooted(call) and len(ranks) > 1)),
                ("rooted", float(stalled and not _is_proved(case, call))),
                (
                    "timed out itself",
                    float(gloo_blind_spots.is_gloo(case.frames, call)),
                ),
            ),
        )


def _holds_up(case: Case, end: End, ranks: tuple[int, ...]) -> bool:
    """Whether others wait for ranks that are left in a call, or the job stands still.

    Peers that have finished the call and are in no other one work on: ranks of a job
    that runs, dumped one after the other, look like that.
    """
    standing = standstill.standing(case.frames).answer == "yes"
    return standing or not end.blocked.issubset(ranks)


def _stands_unbegun(case: Case, number: int) -> bool:
    """Whether a job stands still, and no GPU has begun the call that all ranks made."""
    stands = standstill.standing(case.frames).answer == "yes"
    return stands and number in case.unbegun


def _is_rooted(call: Call) -> bool:
    return not call["is_p2p"] and str(call["op"]).lower() in ROOTED


def _is_older(case: Case, call: Call, ranks: tuple[int, ...]) -> bool:
    """Whether some ranks' host sides have also enqueued less than their peers."""
    there = case.frames["standings"].filter(pl.col("group") == call["group"])
    mine = pl.col("rank").is_in(list(ranks))
    late = pl.col("enqueued").filter(mine).max() < pl.col("enqueued").max()
    return bool(there.select(late.fill_null(False)).item())


def _is_proved(case: Case, call: Call) -> bool:
    """Whether peers cannot have got past a call without its last members."""
    if not _is_rooted(call):
        return True
    standing = case.frames["standings"].filter(
        (pl.col("group") == call["group"]) & (pl.col("completed") > call["seq"])
    )
    return standing.height > 0
