"""Candidate culprits at an end of the waits: sets of ranks that may have deviated.

A side is a set of ranks that left their program in the same way, that wait in the same
call, that owe the same message, or that agree in a call with each other and with nobody
else. Stories blame sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncclforensics.correlate.traces import code_places
from ncclforensics.theory import edits, stack_ways, weights
from ncclforensics.theory.deviation import Deviation
from ncclforensics.theory.story import culprits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End

FEW = 4  # peers in a call that are asked for what the program does there
ALONE = 2  # ranks of a role; of so few, all ranks of the job show what is usual
MOST_CALLS = 16  # collectives of a large cycle whose sides are examined


@dataclass(frozen=True, slots=True)
class Side:
    """Some ranks at an end, the call they are in, and how they left their program.

    `owes`: `call` is a message of which they owe their half. `bits` is their mean
    deviation from their program, None without history. `others` are the other calls of
    the end.
    """

    ranks: tuple[int, ...]
    call: Call
    edit: edits.Edit | None = None
    bits: float | None = None
    owes: bool = False
    others: tuple[Call, ...] = ()

    @property
    def kind(self) -> str:
        """Return how they left their program: "usual" if not, "unknown" if unknown."""
        if self.edit is not None:
            return self.edit.kind
        return "unknown" if self.bits is None else "usual"


def surprise(case: Case, rank: int) -> float:
    """Return the bits by which a rank left its program: 0 below noise, capped."""
    told = case.deviation(rank)
    if told is None:
        return weights.LAGS if rank in case.laggards else 0.0
    return 0.0 if told.bits < weights.NOISE else min(told.bits, weights.CAP)


def blame(
    case: Case,
    end: End,
    prior: str,
    ranks: tuple[int, ...],
    explained: Iterable[int] = (),
) -> tuple[tuple[str, float], ...]:
    """Return the costs of blaming some ranks: the prior, culprits, and what is left.

    Ranks that make up a whole host, stage or group count as one failure. The surprise
    of the ranks `explained` is explained as well, and costs nothing.
    """
    # lines may be of a part of the ranks
    dumped = case.frames.has("collectives")
    most = dumped and 2 * len(ranks) > len(_everyone(case, end) | {*ranks})
    most |= dumped and case.are_most_of_a_role(ranks)
    return (
        (prior, 1.0),
        *culprits(case, ranks),
        ("most", float(most)),
        *unexplained(case, end, (*ranks, *explained)),
    )


def blame_alone(
    case: Case, end: End, prior: str, side: Side
) -> tuple[tuple[str, float], ...]:
    """Return the costs of blaming a side for a call that the others did not make.

    Others that surprise only because they lack that call are explained.
    """
    told = {rank: case.deviation(rank) for rank in side.call["absent"] or ()}
    without = [rank for rank, d in told.items() if d is not None and d.left_out]
    return blame(case, end, prior, side.ranks, without)


def unexplained(
    case: Case, end: End, ranks: tuple[int, ...]
) -> tuple[tuple[str, float], ...]:
    """Return the costs of what a story leaves unexplained: surprise and differences."""
    rest = around(case, end) - {*ranks}
    unlike = [
        number
        for number in end.calls
        if (told := case.signatures.get(number))
        and not any({*side.ranks} <= {*ranks} for side in told)
    ]
    return (
        ("surprise", sum(_events(case, rest).values())),
        ("unlike signature", min(len(unlike), 1)),
        ("said over", float(not case.over.isdisjoint(rest))),
        ("odd words", float(not case.odd.isdisjoint(rest))),
    )


def _events(case: Case, ranks: set[int]) -> dict[object, float]:
    """Return the surprise of some ranks in bits, counted once per deviating call.

    If several ranks make the same call for the first time, that is one event.
    """
    found: dict[object, float] = {}
    for rank in ranks:
        if (bits := surprise(case, rank)) > 0.0:
            told = case.deviation(rank)
            what = None if told is None else case.program.calls["bare"][told.row]
            key = (what, told is not None and told.left_out)
            found[key] = max(bits, found.get(key, 0.0))
    return found


def claimed(
    case: Case, ranks: tuple[int, ...], call: Call | None = None
) -> tuple[tuple[str, float], ...]:
    """Return what it costs to claim that some ranks left their program, with `call`.

    A call that no dump records, as a message known from a traceback, has no history.
    """
    told = [d.bits for d in _deviations(case, ranks, call)]
    if not told:
        return (("no history", float(not {*ranks} <= case.laggards)),)
    return (("no surprise", max(0.0, weights.EXPECTED - min(told))),)


def are_first(case: Case, end: End, ranks: tuple[int, ...]) -> bool:
    """Whether ranks are the first of all, or the first of each node or team.

    These are the first one, and each so many behind it, to the end.
    """
    everyone = _everyone(case, end)
    step = max(everyone) + 1 - max(ranks)
    alone = ranks == (min(everyone),)
    return alone or {*ranks} == {*range(min(everyone), max(everyone) + 1, step)}


def around(case: Case, end: End) -> set[int]:
    """Return the ranks at an end, and those in or behind its calls."""
    some = {r for n in end.calls for w in HERE for r in case.calls[n][w] or ()}
    return {*end.ranks, *some}


def _everyone(case: Case, end: End) -> set[int]:
    """Return the ranks around an end, and all members of its calls."""
    members = {r for n in end.calls for r in case.calls[n]["members"] or ()}
    return around(case, end) | members


def _deviations(
    case: Case, ranks: tuple[int, ...], call: Call | None
) -> list[Deviation]:
    if call is not None and (call["op"] == code_places.UNRECORDED or is_bare(call)):
        return []
    known = {r: d for r in ranks if (d := case.deviation(r)) is not None}
    roles = [role for r in known if (role := case.program.roles.get(r))]
    # where all of a role are blamed, nobody shows what is usual in it
    if roles and all(len(role) > ALONE and role <= {*ranks} for role in roles):
        return [replace(d, bits=max(d.bits, d.own)) for d in known.values()]
    return [*known.values()]


def is_bare(call: Call) -> bool:
    """Whether a call is a message of which only the place in the code is known."""
    return bool(call["is_p2p"]) and call["seq"] is None and call["pg"] is None


HERE = ("waiting", "behind")
JOINED = ("full", "unseen")  # kinds of ends at which all seen members came


def is_shared(case: Case, side: Side) -> bool | None:
    """Whether the others also made a side's call, behind the call they wait in.

    False if they made another call under its number, None if they made none.
    """
    if case.signatures.get(side.call["call"]):
        return False
    others = {*(side.call["behind"] or ()), *(side.call["waiting"] or ())} - {
        *side.ranks
    }
    return True if others else None


def skipped(case: Case, end: End, side: Side) -> int:
    """Return how many collectives before its own call a side is known to have skipped.

    Others wait in them and have made the side's call as well, behind them: so they come
    first in the program. Later calls of those groups count, too, unless the others have
    gone on behind the side's call.
    """
    held = case.graph.calls_of.get(side.ranks[0], ()) if side.owes else ()
    own = case.calls[held[0]] if held else side.call
    others = {*(own["behind"] or ()), *(own["waiting"] or ())} - {*side.ranks}
    ahead = case.reached.get(own["group"], 0) > (own["seq"] or 0)
    found = 0
    for call in (case.calls[n] for n in end.calls if n != own["call"]):
        lacks = {*side.ranks} <= {*(call["absent"] or ()), *(call["unseen"] or ())}
        if lacks and not call["is_p2p"] and not others.isdisjoint(call["waiting"]):
            more = case.reached.get(call["group"], 0) - (call["seq"] or 0)
            found += 1 if ahead else 1 + max(more, 0)
    return found


def odd(case: Case, end: End) -> tuple[Side, ...]:
    """Return the sides at an end, cached."""
    if ("sides", end) not in case.kept:
        case.kept["sides", end] = tuple(_sides(case, end))
    found: tuple[Side, ...] = case.kept["sides", end]
    return found


def is_apart(case: Case, side: Side) -> bool:
    """Whether a side calls a different operation or other sizes than the rest."""
    told = case.signatures.get(side.call["call"], ())
    return any({*s.ranks} == {*side.ranks} for s in told)


def alone(case: Case, end: End) -> Iterator[Side]:
    """Yield the sides of an end that are in a call that the others are not in."""
    for side in odd(case, end):
        apart = end.kind not in JOINED or is_apart(case, side)
        same = stack_ways.is_at_one_place(case, side.ranks, side.call)
        if apart and not same and not side.owes:
            yield side


def _sides(case: Case, end: End) -> list[Side]:
    """Return the sides at an end, each set of ranks once, deviating ones first."""
    found: dict[tuple[tuple[int, ...], bool], Side] = {}
    for side in (*_deviating(case, end), *_differing(case, end), *_held(case, end)):
        if end.kind == "circle" and {*side.ranks} >= {*end.ranks}:
            continue  # a side that is the whole cycle is not the odd one
        found.setdefault((side.ranks, side.owes), side)
    return list(found.values())


def _deviating(case: Case, end: End) -> Iterator[Side]:
    """Yield the ranks that left their program, grouped by how they did; then all."""
    alike: dict[tuple[edits.Kind, object], list[int]] = {}
    how: dict[tuple[edits.Kind, object], tuple[edits.Edit, Call]] = {}
    for rank in sorted(around(case, end)):
        call = _call_of(case, end, rank)
        told = case.deviation(rank)
        if surprise(case, rank) == 0.0 or call is None or told is None:
            continue
        edit = edits.edit(case.program, told)
        key = (edit.kind, case.program.calls["bare"][told.row])
        alike.setdefault(key, []).append(rank)
        how.setdefault(key, (edit, call))
    for key, ranks in alike.items():
        edit, held = how[key]
        yield _side(case, end, tuple(ranks), held, edit)
    if len(alike) > 1:
        everyone = tuple(sorted(r for s in alike.values() for r in s))
        yield _side(case, end, everyone, held, None)


def _call_of(case: Case, end: End, rank: int) -> Call | None:
    """Return the call of an end that a rank is in or behind; else one it is in."""
    for word in HERE:
        for number in end.calls:
            if rank in (case.calls[number][word] or ()):
                return case.calls[number]
    held = case.graph.calls_of.get(rank) or case.graph.wanted_in.get(rank)
    return case.calls[held[0]] if held else None


def _differing(case: Case, end: End) -> Iterator[Side]:
    """Yield the sides on which members of a call differ in its signature."""
    for number in end.calls:
        for side in case.signatures.get(number, ()):
            call = case.calls[number]
            own = {**call, "stack": side.stack or call["stack"]}
            yield _side(case, end, side.ranks, own, None)


def _held(case: Case, end: End) -> Iterator[Side]:
    """Yield the ranks that wait in each call of an end, or that owe each message."""
    here, held = {*end.ranks}, case.graph.calls_of
    dumped = case.frames.has("collectives")
    calls = sorted(
        (case.calls[n] for n in end.calls if not case.calls[n]["is_p2p"]),
        key=lambda c: (len(c["waiting"]), c["call"]),
    )[:MOST_CALLS]
    for call in calls:
        waiting = call["waiting"]
        inside = [r for r in waiting if r in here or end.kind == "absent"]
        # by its dump, who waits nowhere else is there with them
        more = [r for r in waiting if r in here or len(held[r]) == 1]
        both = (inside, more) if dumped and end.kind != "absent" else (inside,)
        for ranks in both if inside else ():
            yield _side(case, end, tuple(ranks), call, None)
    owing: dict[tuple[object, ...], tuple[set[int], Call]] = {}
    for number in end.calls:
        call = case.calls[number]
        debtors = {*(call["absent"] or ())} & here
        if call["is_p2p"] and debtors:
            key = (call["pg_desc"], call["op"], _place(call, min(debtors)))
            owing.setdefault(key, (set(), call))[0].update(debtors)
            yield _side(case, end, tuple(sorted(debtors)), call, None, owes=True)
    for ranks_, call in owing.values():
        yield _side(case, end, tuple(sorted(ranks_)), call, None, owes=True)
        # along a pipeline each waits for the next: the last of them for no message
        last = {rank for rank in ranks_ if not _is_owed(case, rank)}
        if last and last != ranks_:
            yield _side(case, end, tuple(sorted(last)), call, None, owes=True)


def _is_owed(case: Case, rank: int) -> bool:
    """Whether a rank waits in a message whose other half is not posted."""
    held = (case.calls[n] for n in case.graph.calls_of.get(rank, ()))
    return any(call["is_p2p"] and call["absent"] for call in held)


def _place(call: Call, rank: int) -> int:
    """Return a rank's index among the members of a message; -1 if it is none."""
    return (
        list(call["members"] or ()).index(rank)
        if rank in (call["members"] or ())
        else -1
    )


def _side(
    case: Case,
    end: End,
    ranks: tuple[int, ...],
    call: Call,
    edit: edits.Edit | None,
    *,
    owes: bool = False,
) -> Side:
    told = _deviations(case, ranks, call)
    if edit is None and told:
        most = max(told, key=lambda d: d.bits)
        if most.bits >= weights.NOISE:
            edit = edits.edit(case.program, most)
        elif end.kind == "circle" and not owes:
            edit = _branch(case, end, ranks[0], call)
    bits = sum(d.bits for d in told) / len(told) if told else None
    others = sorted(
        (case.calls[n] for n in end.calls if n != call["call"]),
        key=lambda c: (c["is_p2p"] or False, -len(c["waiting"]), c["call"]),
    )
    return Side(ranks, call, edit, bits, owes, tuple(others))


def _branch(case: Case, end: End, rank: int, call: Call) -> edits.Edit | None:
    """Return the edit of a rank whose call is as usual as the one its peers are in.

    The program has a branch there, and the rank took the other one: as at the end of a
    loop, or where two orders of calls are as common. None if no peer of its role waits.
    """
    told = case.program
    own = None if call["is_p2p"] else told.row(rank, call)
    if own is None:
        return None
    role = told.calls["role"]
    for other in (case.calls[n] for n in end.calls if n != call["call"]):
        for peer in () if other["is_p2p"] else other["waiting"][:FEW]:
            row = told.row(peer, other)
            if row is not None and role[row] == role[own]:
                return edits.edit(told, Deviation(rank, 0.0, own, fork=row))
    return None
