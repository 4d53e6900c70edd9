"""Circles of waits in which messages are: who left out a half, or that all send first.

The ranks of one stage run one program, each in a pipeline of its own: so they leave out
the same message, all of them, and each is seen to do so. Where all of a circle are held
in sends and none has made a call behind its own, the receives are still to come: all of
them send first, and nobody left out anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.held import OTHER_SIDE
from ncclforensics.diagnosers.clues import halves, programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ncclforensics.frames import Frames

Call = dict[str, Any]
Stage = tuple[object, ...]

OFTEN = 2  # earlier messages of the same two ends, for another peer to be odd
SAMPLE = 16  # messages of a circle that tell which stage left one out


def left_out(
    frames: Frames, calls: Iterable[Call], circle: set[int]
) -> dict[int, Call]:
    """Return the ranks of a circle that left out a half, with what waits for it.

    Nobody, if they are not all of one stage. Who posted its half for the wrong peer is
    to blame alone, as that peer owes it nothing.
    """
    talk = [call for call in calls if call["is_p2p"]]
    found = _who(frames, talk[:SAMPLE], circle, wrong=True)
    found = found or _who(frames, talk[:SAMPLE], circle)
    owed = stages(frames, talk if len(talk) > SAMPLE else found.values())
    there = {owed[call["call"]] for call in found.values()}
    if len(there) > 1:
        return {}
    more = [call for call in talk[SAMPLE:] if owed[call["call"]] in there]
    return found | _who(frames, more, circle)


def _who(
    frames: Frames, talk: Sequence[Call], circle: set[int], *, wrong: bool = False
) -> dict[int, Call]:
    found: dict[int, Call] = {}
    for call in talk:
        for rank in sorted({*call["absent"], *call["behind"]} & circle):
            owes = (
                _is_misaddressed(frames, call, rank, talk)
                if wrong
                else programs.skipped(frames, call, (rank,))
                or halves.has_fewer_open(frames, call, rank)
            )
            if owes:
                found.setdefault(rank, call)
    return found


def _is_misaddressed(
    frames: Frames, call: Call, rank: int, talk: Iterable[Call]
) -> bool:
    """Whether a rank posted the half that it owes here for another peer than ever.

    It is held in that one, which its peer never was to answer.
    """
    owed = OTHER_SIDE.get(call["op"])
    held = [c for c in talk if c["op"] == owed and c["waiting"] == [rank]]
    mine = programs.program(frames, rank).filter(pl.col("op") == owed)
    ends = ("group", "src", "dst")
    for other in held:
        now = programs.held(frames, other)
        before = mine.filter(pl.col("record_id") < now["record_id"].max())
        ever = before.join(now, on=list(ends), how="semi", nulls_equal=True)
        if other["absent"] and ever.is_empty():
            theirs = programs.held(frames, call)
            usual = before.join(theirs, on=list(ends), how="semi", nulls_equal=True)
            if usual.height >= OFTEN:
                return True
    return False


def stages(frames: Frames, calls: Iterable[Call]) -> dict[int, Stage]:
    """Return for each message which stage owes its other half.

    That is the kind of its group and the place there, which the ranks of one stage
    share though each is in a group of its own. What no entry tells is of none but its
    own.
    """
    told = [(call["call"], call["source"], call["line"]) for call in calls]
    entry = ("source", "line")
    schema = frames["calls"].select("call", *entry).schema
    wanted = pl.DataFrame(told, schema=schema, orient="row")
    owes = pl.when(pl.col("op") == "send").then("dst").otherwise("src")
    made = (
        frames.scan("collectives")
        .filter(pl.col("source").is_in(wanted["source"].unique().implode()))
        .select(*entry, "pg_desc", owes.alias("owes"))
        .collect()
        .join(wanted, on=list(entry))
    )
    rows = made.select("call", "pg_desc", "owes").iter_rows()
    own: dict[int, Stage] = {call: (call,) for call, _, _ in told}
    return own | {call: (kind, place) for call, kind, place in rows}


def is_one_stage(frames: Frames, calls: Sequence[Call]) -> bool:
    """Whether it is one stage, in each pipeline, that owes the halves of messages."""
    return len({*stages(frames, calls).values()}) == 1


def all_send(frames: Frames, calls: Sequence[Call], circle: set[int]) -> bool:
    """Whether all of a circle are held in sends, and the receives are still to come."""
    if any(call["op"] != "send" or not call["is_p2p"] for call in calls):
        return False
    held = {call["waiting"][0]: call for call in calls}
    owing = {rank for call in calls for rank in call["absent"]} & circle
    # where all receives are posted, one of earlier ones may be missing
    return bool(owing) and all(
        rank in held and _is_last(frames, rank, held[rank]) for rank in sorted(owing)
    )


def _is_last(frames: Frames, rank: int, call: Call) -> bool:
    """Whether a rank has made nothing behind the message that it is held in."""
    mine = programs.program(frames, rank)
    here = (pl.col("source") == call["source"]) & (pl.col("line") == call["line"])
    since = pl.col("record_id") > mine.filter(here)["record_id"].max()
    closes = pl.col("op").str.ends_with("coalesced")
    return mine.filter(since & ~closes).is_empty()


def may_be_over(frames: Frames, call: Call, gone: tuple[int, ...]) -> bool:
    """Whether a message may be one of many that only its own rank has not seen end.

    Of calls that are over a dump of open calls shows nothing: where a rank has messages
    to and from another one open, and that one has none, its GPU may be the one behind.
    """
    talk = (
        frames.scan("collectives")
        .filter(
            pl.col("is_p2p")
            & pl.col("rank").is_in([*call["waiting"], *gone])
            & (pl.col("state") != "completed")
            & pl.col("pg").eq_missing(call["pg"])
            & pl.col("pg_desc").eq_missing(call["pg_desc"])
        )
        .collect()
    )
    own = talk.filter(pl.col("rank").is_in(call["waiting"]))["op"]
    theirs = talk.filter(pl.col("rank").is_in(gone))
    return own.n_unique() > 1 and theirs.is_empty()
