"""Unbalanced send and recv: halves of messages that only one side posted.

Between two collectives that two ranks both made, both post equally many halves of the
messages between them. In dumps of open calls only, this holds for the open halves,
because a message that is finished is finished on both sides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.pending_calls import OTHER_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End

MOST_CALLS = 16  # messages of an end that are checked
KEY = ["group", "seq", "sized"]
ROUNDS = 2  # collectives of both, between which halves can be compared


def shortages(case: Case, end: End, ranks: Iterable[int]) -> list[bool | None]:
    """Return `is_short` for each message of an end that some of the ranks owe."""
    calls = [case.calls[n] for n in end.calls]
    owed = [c for c in calls if c["is_p2p"] and {*(c["absent"] or ())} & {*ranks}]
    return [
        is_short(case, call, rank)
        for call in sorted(owed, key=lambda c: c["call"])[:MOST_CALLS]
        for rank in sorted({*call["absent"]} & {*ranks})
    ]


def is_short(case: Case, call: Call, rank: int) -> bool | None:
    """Whether a rank posted fewer halves than the peer that waits for it in a message.

    `call` is the message. None if the two ranks made no common collective after it, and
    no such one of the rank alone decides.
    """
    made = case.program.calls
    waiter = call["waiting"][0]
    mine, theirs = (made.filter(pl.col("rank") == r) for r in (rank, waiter))
    held = theirs.filter(
        (pl.col("source") == call["source"]) & (pl.col("line") == call["line"])
    )
    if held.height != 1 or call["op"] not in OTHER_SIDE:
        return None
    together = ~pl.col("is_p2p") & ~pl.col("op").str.ends_with("coalesced")
    both = (
        mine.filter(together)
        .select(*KEY, pl.col("record_id").alias("mine"))
        .join(
            theirs.filter(together).select(*KEY, pl.col("record_id").alias("theirs")),
            on=KEY,
        )
        .sort("theirs")
    )
    ends = [pl.col(c).eq_missing(held[c][0]) for c in ("group", "src", "dst")]
    owed = mine.filter(pl.col("op") == OTHER_SIDE[call["op"]], *ends)["record_id"]
    posted = theirs.filter(pl.col("op") == call["op"], *ends)["record_id"]
    behind = both.filter(pl.col("theirs") > held["record_id"][0])
    if behind.is_empty():
        return _closed(mine.filter(together), both, owed, posted)
    first, last = both.row(0, named=True), both.row(-1, named=True)
    whole = bool(made["ended"].any()) and first["theirs"] < held["record_id"][0]

    def halves(records: pl.Series, side: str) -> int:
        return int(records.is_between(first[side] if whole else -1, last[side]).sum())

    return halves(owed, "mine") < halves(posted, "theirs")


def _closed(
    mine: pl.DataFrame, both: pl.DataFrame, owed: pl.Series, posted: pl.Series
) -> bool | None:
    """Whether a rank went on to the next collective of both without its half.

    `mine` are its collectives, `both` those that both ranks made, `owed` and `posted`
    the records of the halves of each. Where the halves between two collectives of that
    group were always as many on both sides, that one leaves no time for more. None if
    there is no such collective, or no such rule.
    """
    if both.is_empty():
        return None
    more = mine.filter(pl.col("record_id") > both["mine"].max())
    after = more.filter(pl.col("group").is_in(both["group"].implode()))
    if after.is_empty():
        return None
    end = after.row(0, named=True)
    bounds = both.filter(pl.col("group") == end["group"]).sort("seq")
    if bounds.height < ROUNDS or end["sized"] != bounds["sized"][-1]:
        return None
    if bounds["seq"][-1] + 1 != end["seq"]:
        return None
    counts = [
        (
            int(owed.is_between(a["mine"], b["mine"]).sum()),
            int(posted.is_between(a["theirs"], b["theirs"]).sum()),
        )
        for a, b in pairwise(bounds.to_dicts())
    ]
    if any(sent != taken for sent, taken in counts):
        return None
    last = bounds.row(-1, named=True)
    sent = int(owed.is_between(last["mine"], end["record_id"]).sum())
    return True if sent < int((posted > last["theirs"]).sum()) else None
