"""Halves of messages that are open on one side and not on the other.

From one call of a group that both sides made to another both post as many, and a
message that is over is so for both. A rank that has gone on, to a call that both made
behind their messages, and has fewer halves open left one out; unless the GPU of the
other side stands still, which shows in what else it has open and its peers do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.held import OTHER_SIDE
from ncclforensics.correlate.standings import ROOTED
from ncclforensics.diagnosers.clues import programs
from ncclforensics.tables import begun, done

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

Call = dict[str, Any]


def has_fewer_open(frames: Frames, call: Call, rank: int) -> bool:
    """Whether a rank left out its half of a message, by what both sides have open.

    `call` is the message that its other side, the first of `waiting`, is held in.
    """
    theirs = programs.program(frames, call["waiting"][0])
    mine = programs.program(frames, rank)
    held = programs.held(frames, call)
    if held.height != 1 or held["op"][0] not in OTHER_SIDE:
        return False
    until = _last_of_both(mine, theirs)
    if until is None or until[1] < held["record_id"][0]:
        return False
    mine, theirs = (
        _open(side, record) for side, record in zip((mine, theirs), until, strict=True)
    )
    group, src, dst, half = held.select("group", "src", "dst", "op").row(0)
    ends, back = (group, src, dst), (group, dst, src)
    # what else is in its batch stays open with it
    batch = ["group", "seq", "p2p_seq"]
    others = theirs.join(held.select(batch), on=batch, how="anti")
    missing = _halves(mine, ends, OTHER_SIDE[half]) + 1 == _halves(theirs, ends, half)
    as_many = _halves(mine, back, half) >= _halves(others, back, OTHER_SIDE[half])
    return missing and as_many and not _is_behind(frames, theirs)


def _last_of_both(mine: pl.DataFrame, theirs: pl.DataFrame) -> tuple[int, int] | None:
    """Return the records of the last collective that two ranks have both made."""
    key = ["group", "seq", "op"]
    made = [
        side.filter(
            ~pl.col("is_p2p").fill_null(False)
            & ~pl.col("op").str.ends_with("coalesced")
        ).select(*key, "record_id")
        for side in (mine, theirs)
    ]
    both = made[0].join(made[1], on=key, suffix="_theirs").sort("record_id")
    if both.is_empty():
        return None
    own, other = both.select("record_id", "record_id_theirs").row(-1)
    return own, other


def _open(program: pl.DataFrame, until: int) -> pl.DataFrame:
    """Return what is open of a program, before a record, that nothing has passed.

    What the GPU has begun it is in, whatever calls of other groups have passed it: only
    a message that is not marked as begun may be one whose end nothing marks.
    """
    passed = program.filter(done())["record_id"].max()
    behind = pl.col("record_id") > (-1 if passed is None else passed)
    return program.filter(~done() & (pl.col("record_id") <= until) & (behind | begun()))


def _halves(open_: pl.DataFrame, ends: tuple[str, int, int], half: str) -> int:
    group, src, dst = ends
    return open_.filter(
        (pl.col("group") == group)
        & pl.col("src").eq_missing(src)
        & pl.col("dst").eq_missing(dst)
        & (pl.col("op") == half)
    ).height


def _is_behind(frames: Frames, open_: pl.DataFrame) -> bool:
    """Whether peers have finished a collective that a rank has open."""
    needed = open_.filter(
        ~pl.col("is_p2p").fill_null(False) & ~pl.col("op").is_in(ROOTED)
    )
    over = pl.coalesce(
        "completed",
        pl.col("waits_in") - 1,
        pl.when(pl.col("waits_in").is_null()).then("enqueued"),
    )
    front = frames["standings"].group_by("group").agg(over.max().alias("front"))
    told = needed.join(front, on="group").filter(pl.col("seq") <= pl.col("front"))
    return not told.is_empty()
