"""Whose turn a call was, where ranks wait for each other in a circle.

Groups that are entered in different order keep each its own order: whoever is in a call
made the same one as all others that have it, only before another one that it has not
made yet. A call with which one side alone spends a number of the group is no such turn,
nor is one that a rank makes when it has gone too little of the way from the last time
it made such a call: it is one too many.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate.standings import grouped
from ncclforensics.diagnosers.clues import programs
from ncclforensics.tables import done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.frames import Frames

Call = dict[str, Any]
Side = tuple[tuple[int, ...], int | None]

BARRIER = "barrier"
FEW = 4  # ranks of each side whose history is looked at


def went_ahead(frames: Frames, calls: Iterable[Call]) -> Call | None:
    """Return the call that some ranks made before one that others made before it.

    The others have enqueued that call as well, as the same number of its group.
    """
    collective = [call for call in calls if not call["is_p2p"]]
    for ahead in collective:
        for passed in collective:
            early = {*ahead["waiting"]} & {*passed["absent"]}
            late = {*passed["waiting"]} & {*ahead["behind"]}
            if early and late and len(_made(frames, ahead, (*early, *late))) == 1:
                return ahead
    return None


def crossed(frames: Frames, calls: Iterable[Call]) -> tuple[Call, set[int]] | None:
    """Return a call, and who has enqueued it and another one in either order.

    Some wait in the one and have the other behind it, some just the other way round:
    nothing else than their order keeps them from each other.
    """
    collective = [call for call in calls if not call["is_p2p"]]
    for one, other in combinations(collective, 2):
        early = {*one["waiting"]} & {*other["behind"]}
        late = {*other["waiting"]} & {*one["behind"]}
        both = (*early, *late)
        if (
            early
            and late
            and all(len(_made(frames, c, both)) == 1 for c in (one, other))
        ):
            return one, {*both}
    return None


def is_one(frames: Frames, call: Call) -> bool:
    """Whether those who came to a call by its number make the same one there.

    Where they do not, no order of calls would let them past it.
    """
    some = (*call["waiting"][:FEW], *call["behind"][:FEW])
    return len(_made(frames, call, some)) <= 1


def stray(frames: Frames, call: Call) -> Side | None:
    """Return the smaller side, and its stack, of those that differ on what a call is.

    They are members that came to it by its number. A place in the code of its own, at
    which the others never are, a rank may have for a call of everybody's.
    """
    came = (*call["waiting"], *call["behind"])
    sides = _made(frames, call, came)
    if len(sides) != 2:
        return None
    (what, few), (_, many) = sorted(sides.items(), key=lambda side: len(side[1][0]))
    if len(few[0]) == len(many[0]):
        return None
    made = programs.entries(frames, call, (few[0][0], many[0][0])).filter(
        pl.col("seq") < call["seq"]
    )
    own = (pl.col("rank") == few[0][0]) & (pl.col("what") == what)
    apart = made.filter(own).join(
        made.filter((pl.col("rank") == many[0][0]) & (pl.col("what") != what)), on="seq"
    )
    return few if apart.is_empty() else None


def went_along(frames: Frames, call: Call, rank: int, peers: Iterable[int]) -> bool:
    """Whether a peer made what a rank is in, too, in a group of its own.

    It did so behind the last call that both made: they run one program, so this is a
    call of everybody's, and its turn.
    """
    mine = programs.program(frames, rank)
    now = mine.filter(pl.col("seq") == call["seq"], pl.col("group") == call["group"])
    what = now.select(programs.what(frames))["what"]
    for peer in peers:
        theirs = programs.program(frames, peer)
        shared = theirs.join(mine, on=["group", "seq", "op"], how="semi")["record_id"]
        since = theirs.filter(
            pl.col("record_id") > (shared.max() or 0),
            pl.col("pg_desc").eq_missing(call["pg_desc"]),
            pl.col("group") != call["group"],
            ~pl.col("is_p2p").fill_null(False),
        )
        if since.select(programs.what(frames))["what"].is_in(what.implode()).any():
            return True
    return False


def usual(frames: Frames, calls: Iterable[Call], circle: set[int]) -> set[int]:
    """Return the calls that an absent rank of the circle has made before just so.

    One look at all of them together, for what is left to be few.
    """
    rows = [
        {
            **{key: call[key] for key in ("call", "group", "seq")},
            "waiting": [r for r in call["waiting"] if r in circle],
            "absent": [r for r in (*call["absent"], *call["behind"]) if r in circle][
                :FEW
            ],
        }
        for call in calls
        if not call["is_p2p"]
    ]
    if not rows:
        return set()
    ranks = pl.List(pl.Int64())
    told = pl.DataFrame(
        rows, schema_overrides={"waiting": ranks, "absent": ranks}, strict=False
    ).with_columns(pl.col("seq").cast(pl.Int64))
    group = ["rank", "group"]
    waiting = told.explode("waiting").rename({"waiting": "rank"}).drop("absent")
    absent = told.explode("absent").rename({"absent": "rank"}).drop("waiting", "seq")
    both = pl.concat([waiting["rank"], absent["rank"]]).unique()
    made = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(both.implode()) & ~pl.col("is_p2p").fill_null(False)
        )
        .collect()
        .pipe(grouped, frames["group_names"])
    )
    now = made.filter(pl.col("seq").is_in(told["seq"].unique().implode())).join(
        waiting, on=[*group, "seq"], how="inner"
    )
    before = made.join(absent, on=group, how="inner")
    what = programs.what(frames)
    now, before = (side.select("call", what) for side in (now, before))
    fresh = now.join(before, on=["call", "what"], how="anti")
    return {*now["call"]} - {*fresh["call"]}


def parts_many(call: Call, ranks: Iterable[int]) -> bool:
    """Whether more than one rank of a circle is in a call, and more than one not."""
    came, gone = ({*call[state]} & {*ranks} for state in ("waiting", "absent"))
    return not call["is_p2p"] and min(len(came), len(gone)) > 1


def _made(frames: Frames, call: Call, ranks: Iterable[int]) -> dict[int, Side]:
    """Return the sides that ranks take on a call by its number, each with a stack."""
    here = programs.entries(frames, call, ranks).filter(pl.col("seq") == call["seq"])
    told = programs.comparable(frames, here)
    told = told.group_by("what", maintain_order=True).agg(
        pl.col("rank").unique().sort(), pl.col("stack").first()
    )
    return {what: (tuple(some), stack) for what, some, stack in told.iter_rows()}


def is_usual_way(frames: Frames, call: Call) -> bool:
    """Whether the first rank of a call came to it from where it came before."""
    return _is_usual(*_way(frames, call, call["waiting"][0]))


def _is_usual(made: list[int], now: int) -> bool:
    return any(made[i - 1 : i + 1] == made[now - 1 : now + 1] for i in range(1, now))


def where_ways_part(frames: Frames, calls: list[Call]) -> list[Call]:
    """Return the rarest of the calls to which the first ranks came as they had before.

    Where all of them did so, none was made before another: the ways part, as at the end
    of a loop. None where one of them is at a place that it had not come to like that.
    """
    ways = [_way(frames, call, call["waiting"][0]) for call in calls]
    if not all(_is_usual(made, now) for made, now in ways):
        return []
    times = [
        max(
            other[: at if other is made else None].count(made[now])
            for other, at in ways
        )
        for made, now in ways
    ]
    return [c for c, count in zip(calls, times, strict=True) if count == min(times)]


def is_known(frames: Frames, call: Call, ranks: Iterable[int]) -> bool:
    """Whether one of some ranks made such a call before, as far as that can be told.

    A dump of open calls says nothing of what was made before; there any call will do
    that may be one of each step, which a barrier seldom is.
    """
    everyone = (*ranks, call["waiting"][0])
    made = programs.entries(frames, call, everyone)
    now = made.filter(pl.col("seq") == call["seq"])["what"].implode()
    earlier = made.filter((pl.col("seq") < call["seq"]) & pl.col("what").is_in(now))
    if not earlier.is_empty():
        return True
    past = any(_has_past(programs.program(frames, rank)) for rank in everyone)
    return not past and (call["stack"] is not None or BARRIER not in call["op"])


def _has_past(program: pl.DataFrame) -> bool:
    over = done() & ~pl.col("is_p2p").fill_null(False)
    return bool(program.select(over.any()).item())


def share_of_way(frames: Frames, call: Call) -> float | None:
    """Return how much of the usual way a rank went from the last such call to this one.

    The first rank of the call, in calls that it made in between, against the fewest of
    earlier times and of one that made this call behind the one that holds it. None
    where nothing tells how many these are.
    """
    gaps = _gaps(frames, call, call["waiting"][0])
    theirs = [_gaps(frames, call, rank) for rank in call["behind"][:1]]
    usual = [*gaps[:-1], *(gap for some in theirs for gap in some[-1:])]
    return gaps[-1] / min(usual) if gaps and usual else None


def _gaps(frames: Frames, call: Call, rank: int) -> list[int]:
    """Return how many calls lie between one like it and the next, up to this one."""
    made, now = _way(frames, call, rank)
    # of a rank that only lines tell of no call is known
    so_far = made[: now + 1]
    return [
        late - early
        for early, late in pairwise(i for i, c in enumerate(so_far) if c == made[now])
    ]


def _way(frames: Frames, call: Call, rank: int) -> tuple[list[int], int]:
    """Return what a rank made in order, and which of it a call is."""
    mine = programs.program(frames, rank).with_row_index("at")
    at = mine.filter(
        (pl.col("seq") == call["seq"])
        & (pl.col("group") == call["group"])
        & ~pl.col("is_p2p").fill_null(False)
    )["at"]
    return mine["what"].to_list(), int(at[0]) if at.len() else 0
