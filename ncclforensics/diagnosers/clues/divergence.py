"""Ranks that wait for each other in a circle: which kind of divergence it is.

A circle has no root, so what its ranks did before has to tell. A call that its absent
members never made, although they keep a whole step of history, is one that only a few
ranks make: an extra call behind a condition, or the end of a loop that the others are
still in. Which of the two, the program's order tells where stacks are at hand. A
message that one side skipped closes a circle as well. What is left are groups entered
in different order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from ncclforensics.correlate import waits
from ncclforensics.diagnosers.clues import (
    common,
    left_out,
    programs,
    purposes,
    turns,
)
from ncclforensics.frames import remembered
from ncclforensics.tables import done

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.frames import Frames

Kind = Literal["order", "message", "mismatch"] | purposes.Purpose
Call = dict[str, Any]

# a call to which a smaller share of its members came is nobody's usual one
FEW_CAME = 0.5
SAMPLE_CALLS = 16  # of a large circle
SAMPLE = 4  # ranks of each side whose history is looked at
# of the usual way from one call to the next like it: with less an extra one was made,
# with as much it was its turn
EXTRA, IN_TURN = 0.5, 0.75


@dataclass(frozen=True, slots=True)
class Divergence:
    """A circle of waits: its ranks, the odd ones of them, and where each side is.

    `call` is what the odd ranks are in, `others` what the rest is in, most ranks first.
    """

    kind: Kind
    ranks: tuple[int, ...]
    odd: tuple[int, ...]
    call: Call
    others: tuple[Call, ...]


@remembered
def divergences(frames: Frames) -> tuple[Divergence, ...]:
    """Return the circles of waits, each with its kind."""
    found = []
    for ranks in waits.circles(frames["calls"]):
        held = pl.col("waiting").list.set_intersection(list(ranks)).list.len() > 0
        calls = sorted(
            (_own_first(c, {*ranks}) for c in frames["calls"].filter(held).to_dicts()),
            key=lambda call: (-len(call["waiting"]), call["call"]),
        )
        found.append(_told(frames, ranks, calls))
    return tuple(found)


def _own_first(call: Call, circle: set[int]) -> Call:
    """Put the ranks of a circle first: who waits beside it came there as ever."""
    waiting = sorted(call["waiting"], key=lambda rank: (rank not in circle, rank))
    return {**call, "waiting": waiting}


def calls_in_circles(frames: Frames) -> set[int]:
    """Return the numbers of the calls in which circles are held.

    Not of one that is another call for some of them: there the sides tell who is odd.
    """
    return {
        call["call"]
        for found in divergences(frames)
        for call in (found.call, *found.others)
        if found.kind != "mismatch" or call is not found.call
    }


def _told(frames: Frames, ranks: tuple[int, ...], calls: list[Call]) -> Divergence:
    circle = set(ranks)
    if (pair := turns.crossed(frames, calls[:SAMPLE_CALLS])) is not None:
        call, both = pair
        others = tuple(c for c in calls if c is not call)
        return Divergence("order", ranks, tuple(sorted(both & circle)), call, others)
    if left_out.all_send(frames, calls, circle):
        return Divergence("order", ranks, ranks, calls[0], tuple(calls[1:]))
    silent = left_out.left_out(frames, calls, circle)
    taken = turns.went_ahead(frames, calls[:SAMPLE_CALLS])
    if taken is not None and not turns.is_usual_way(frames, taken):
        return _in_turn(frames, ranks, taken, calls)
    if silent and taken is None:
        return _message(ranks, silent, calls)
    if (found := _after_loop(frames, ranks, calls)) is not None:
        return found
    if (found := _stray(frames, ranks, calls)) is not None:
        return found
    if taken is not None:
        return _in_turn(frames, ranks, taken, calls)
    best: Divergence | None = None
    usual = turns.usual(frames, calls, circle)
    # those who wait beside the circle in one of its calls are on a side as well
    held = {rank for call in calls for rank in call["waiting"]}
    for call in calls:
        if call["is_p2p"] or call["call"] in usual:
            continue
        others = tuple(c for c in calls if c is not call)[:SAMPLE_CALLS]
        for side, stack in _sides(frames, call):
            odd = tuple(sorted(side & circle))
            few = 2 * len(side) <= len(held) and (
                best is None or len(odd) < len(best.odd)
            )
            if odd and few and _is_new(frames, call, odd, others):
                kind = purposes.of(frames, call, odd, stack, others)
                best = Divergence(kind, ranks, odd, {**call, "stack": stack}, others)
    if best is not None:
        return best
    past: list[Call] = []
    for call in calls:
        if (
            not call["is_p2p"]
            or not call["absent"]
            or not set(call["absent"]) <= circle
        ):
            continue
        others = tuple(c for c in calls if c is not call)
        gone = tuple(call["absent"])
        # the side that did not post is in another call, so it went past that place
        inside = [c for c in others if set(c["waiting"]) & set(gone)]
        alone = [c for c in inside if not c["is_p2p"] and _came(c) < FEW_CAME]
        if alone and not _has_history(frames, gone):
            stack = alone[0]["stack"]
            rest = tuple(c for c in calls if c is not alone[0])
            kind = purposes.of(frames, alone[0], gone, stack, rest)
            return Divergence(kind, ranks, gone, alone[0], rest)
        over = not _has_history(frames, gone) and left_out.may_be_over(
            frames, call, gone
        )
        if not over and not any(c["is_p2p"] for c in inside):
            past.append(call)
    silent = {rank: call for call in past for rank in call["absent"]}
    # who owes several came to that call too early
    if len(past) == len(silent) and left_out.is_one_stage(frames, past):
        return _message(ranks, silent, calls)
    talk = [call for call in calls if call["is_p2p"]]
    # some side may have left out its half of a message
    if len(talk) == len(calls) or (talk and not _has_history(frames, ranks)):
        return Divergence("order", ranks, (), calls[0], tuple(calls[1:]))
    made = [call for call in calls if not call["is_p2p"]][:SAMPLE_CALLS]
    if len(made) == len(calls) and (left := turns.where_ways_part(frames, made)):
        return _parted(ranks, left, calls)
    early = min(made, key=lambda call: _way_gone(frames, call))
    return _in_turn(frames, ranks, early, calls)


def _message(
    ranks: tuple[int, ...], silent: dict[int, Call], calls: list[Call]
) -> Divergence:
    """Name those who left out their halves, each with the message that waits for it."""
    waits_for = [*silent.values()]
    call = {**waits_for[0], "waiting": sorted({c["waiting"][0] for c in waits_for})}
    others = tuple(c for c in calls if c not in waits_for)
    return Divergence("message", ranks, tuple(sorted(silent)), call, others)


def _parted(ranks: tuple[int, ...], left: list[Call], calls: list[Call]) -> Divergence:
    """Name those who left their loop, where they are not the most."""
    call = left[0]
    odd = tuple(sorted({*call["waiting"]} & {*ranks}))
    others = tuple(c for c in calls if c is not call)
    if len(left) == 1 and 2 * len(odd) <= len(ranks):
        return Divergence("uneven", ranks, odd, call, others)
    return Divergence("order", ranks, (), call, others)


def _stray(
    frames: Frames, ranks: tuple[int, ...], calls: list[Call]
) -> Divergence | None:
    """Find the few that spend a number of a group on another call than all others."""
    for call in calls[:SAMPLE_CALLS]:
        if call["is_p2p"] or (side := turns.stray(frames, call)) is None:
            continue
        odd, stack = side
        others = tuple(c for c in calls if c is not call)[:SAMPLE_CALLS]
        if 2 * len(odd) <= len(ranks) and {*odd} <= {*ranks}:
            # what is enqueued behind another call that holds them is no place they are
            # at, only another call than everybody's
            held = not {*odd} <= {*call["waiting"]}
            kind: Kind = (
                "mismatch" if held else purposes.of(frames, call, odd, stack, others)
            )
            return Divergence(kind, ranks, odd, {**call, "stack": stack}, others)
    return None


def _in_turn(
    frames: Frames, ranks: tuple[int, ...], call: Call, calls: list[Call]
) -> Divergence:
    """Say whether ranks made a call before its turn, or one like it that is extra."""
    others = tuple(c for c in calls if c is not call)
    gone = _way_gone(frames, call)
    odd = tuple(sorted({*call["waiting"]} & {*ranks}))
    if gone < EXTRA and 2 * len(odd) <= len(ranks):
        return Divergence("conditional", ranks, odd, call, others)
    told = [c for c in (call, *others[:SAMPLE]) if not c["is_p2p"]]
    heads = [c["waiting"][0] for c in told]
    # one place in the code that enters several groups
    same = call["stack"] is not None and len({c["stack"] for c in told}) == 1
    known = same or all(turns.is_known(frames, c, heads) for c in told)
    known = known and all(turns.is_one(frames, c) for c in told)
    if known and call["stack"] is None and not _has_history(frames, ranks):
        # many of a group on both sides may as well have left their loop, unless some
        # have made both calls
        known = not any(turns.parts_many(c, ranks) for c in calls) or any(
            {*c["waiting"]} & {*o["behind"]} for c in told for o in calls
        )
    everyone = ranks if known and gone >= IN_TURN else ()
    return Divergence("order", ranks, everyone, call, others)


def _way_gone(frames: Frames, call: Call) -> float:
    """Return how much of the way to a call had been gone: all, if nothing is known.

    The place in the code tells one call from another that looks like it.
    """
    known = call["stack"] is None and turns.share_of_way(frames, call)
    return known or 1.0


def _after_loop(
    frames: Frames, ranks: tuple[int, ...], calls: list[Call]
) -> Divergence | None:
    """Find the few that went out of their loop to a call they all have made before."""
    few = [
        call
        for call in reversed(calls)
        if not call["is_p2p"] and 2 * len({*call["waiting"]} & {*ranks}) <= len(ranks)
    ]
    left = [
        call
        for call in few[:SAMPLE_CALLS]
        # they run one program, of which not all keep as much
        if any(
            programs.left_loop(frames, call, rank)
            and _is_rarer(frames, call, calls, rank)
            for rank in sorted({*call["waiting"]} & {*ranks})[:SAMPLE]
        )
    ]
    if len(left) != 1:
        return None
    odd = tuple(sorted({*left[0]["waiting"]} & {*ranks}))
    others = tuple(call for call in calls if call is not left[0])
    if turns.went_along(frames, left[0], odd[0], _heads(others)):
        return None
    return Divergence("uneven", ranks, odd, left[0], others)


def _is_rarer(frames: Frames, call: Call, calls: list[Call], rank: int) -> bool:
    """Whether a rank has made a call that waits for it more often than its own one.

    What is made as seldom as the end of a loop is no call of the loop.
    """
    missed = [c for c in calls[:SAMPLE_CALLS] if rank in c["absent"]]
    times = [_times(frames, c, rank) for c in missed if not c["is_p2p"]]
    return not times or max(times) > _times(frames, call, rank)


def _times(frames: Frames, call: Call, rank: int) -> int:
    """Return how often a rank has made such a call before."""
    made = programs.entries(frames, call, (rank, call["waiting"][0]))
    now = made.filter(pl.col("seq") == call["seq"])["what"]
    earlier = (pl.col("rank") == rank) & (pl.col("seq") < call["seq"])
    return made.filter(earlier & pl.col("what").is_in(now.implode())).height


def _heads(calls: Iterable[Call]) -> tuple[int, ...]:
    """Return some ranks that wait in each of some calls."""
    return tuple({rank for call in calls for rank in call["waiting"][:SAMPLE]})


def _came(call: Call) -> float:
    """Return the share of a call's members that wait in it."""
    return len(call["waiting"]) / max(1, len(call["members"] or ()))


def _has_history(frames: Frames, ranks: tuple[int, ...]) -> bool:
    """Whether the dumps of some ranks hold collectives that are over."""
    own = frames.scan("collectives").filter(pl.col("rank").is_in(ranks)).collect()
    over = done() & ~pl.col("is_p2p").fill_null(False)
    return bool(own.select(over.any()).item())


def _sides(frames: Frames, call: Call) -> Iterator[tuple[set[int], int | None]]:
    """Split the ranks that wait in a call by what they call there: ranks and stack."""
    here = programs.entries(frames, call, call["waiting"]).filter(
        pl.col("seq") == call["seq"]
    )
    for _, side in programs.comparable(frames, here).group_by(
        "op", "what", maintain_order=True
    ):
        yield set(side["rank"]), side["stack"][0]
    rest = set(call["waiting"]) - set(here["rank"])
    if rest:
        yield rest, call["stack"]


def _is_new(
    frames: Frames,
    call: Call,
    odd: tuple[int, ...],
    others: tuple[Call, ...],
) -> bool:
    """Whether the other ranks of a circle never made this call before.

    That is known only of ranks that keep a whole step: they have made the call that
    they wait in now before. Without such, a call is new if the ranks that came to it
    by its number are in something else there, or enqueued something else behind what
    holds them, or if the others are past its place.
    """
    mine = programs.entries(frames, call, odd[:SAMPLE])
    now = mine.filter(pl.col("seq") == call["seq"])
    if now.is_empty():
        return False
    what, stack = now["what"][0], now["stack"][0]
    if turns.went_along(frames, call, odd[0], _heads(others)):
        return False
    missing = {*call["absent"], *call["behind"]}
    known = similar = False
    for other in others:
        if other["is_p2p"]:
            continue
        ranks = [rank for rank in other["waiting"] if rank in missing][:SAMPLE]
        theirs = programs.entries(frames, other, ranks)
        in_it = theirs.filter(pl.col("seq") == other["seq"])
        before = theirs.filter(pl.col("seq") < other["seq"])
        known |= before["what"].is_in(in_it["what"].implode()).any()
        similar |= before["op"].is_in(in_it["op"].implode()).any()
        made = programs.entries(frames, call, ranks)
        if (made["what"] == what).any():
            return False
        if similar and programs.order(frames, stack, other["stack"]) < 0:
            known = True
    if known:
        # the odd ranks themselves have not made it in this history either
        return not (mine.filter(pl.col("seq") < call["seq"])["what"] == what).any()
    theirs = programs.entries(frames, call, call["behind"][:SAMPLE])
    number = pl.lit(call["seq"], pl.Int64)  # messages have none
    enqueued = theirs.filter(pl.col("seq") == number)["what"]
    collided = len(list(_sides(frames, call))) > 1 or (enqueued != what).any()
    named = not call["behind"] and purposes.is_named(frames, stack, odd, others)
    return collided or named or now["op"][0] == "barrier"


def elsewhere(frames: Frames, found: Divergence) -> str:
    """Say where the others are: " and are in … at …; the stacks part at …"."""
    other = next((c for c in found.others if not c["is_p2p"]), None)
    if other is None:
        return "."
    what = common.collective(frames, other)
    site = f" at {what.call_site}" if what.call_site else ""
    where = programs.parting(frames, found.call["stack"], other["stack"])
    apart = f"; the stacks part at {where}" if where else ""
    ranks = common.plural("rank", sorted(other["waiting"]))
    return f": {ranks} {_is(other)} in {common.call_words(what)}{site}{apart}."


def _is(call: Call) -> str:
    return "is" if len(call["waiting"]) == 1 else "are"
