"""Unbalanced send and recv: halves of messages that only one side posted.

Between two collectives that two ranks both made, both post equally many halves of the
messages between them. In dumps of open calls only, this holds for the open halves,
because a message that is finished is finished on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.pending_calls import OTHER_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End

MOST_CALLS = 16  # messages of an end that are checked
KEY = ["group", "seq", "sized"]


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

    `call` is the message. None if the two ranks made no common collective after it.
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
    behind = both.filter(pl.col("theirs") > held["record_id"][0])
    if behind.is_empty():
        return None
    first, last = both.row(0, named=True), both.row(-1, named=True)
    whole = bool(made["ended"].any()) and first["theirs"] < held["record_id"][0]
    ends = [pl.col(c).eq_missing(held[c][0]) for c in ("group", "src", "dst")]

    def halves(program: pl.DataFrame, op: str, side: str) -> int:
        since = first[side] if whole else -1
        here = pl.col("record_id").is_between(since, last[side])
        return program.filter(here, pl.col("op") == op, *ends).height

    posted = halves(mine, OTHER_SIDE[call["op"]], "mine")
    return posted < halves(theirs, call["op"], "theirs")
