"""Members of one call that run a different operation, or pass different sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import call_sites, sides, stack_ways, weights
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.call_signatures import Aspect
    from ncclforensics.theory.call_signatures import Side as Signed
    from ncclforensics.theory.case import Call, Case
    from ncclforensics.theory.ends import End

EXTRA = ("extra", "left", "due", "skip", "swap")
SLUGS = {"op": "collective-mismatch", "shape": "shape-mismatch"}


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame each side of each call of an end on which members differ.

    Groups of one kind may have been called alike by several ranks: one story for all.
    """
    first: dict[tuple[Aspect, str], tuple[Call, Signed]] = {}
    alike: dict[tuple[Aspect, str], set[int]] = {}
    for number in end.calls:
        call = case.calls[number]
        if number in case.unbalanced:
            yield Story(
                "shape-mismatch",
                (),
                call,
                what="unbalanced",
                costs=(("mismatch", 1.0), *sides.unexplained(case, end, ())),
            )
        for side in case.signatures.get(number, ()):
            key = (side.aspect, side.what)
            first.setdefault(key, (call, side))
            alike.setdefault(key, set()).update(side.ranks)
            yield _story(case, end, call, side, tuple(sorted(side.ranks)))
    for key, (call, side) in first.items():
        if len(alike[key]) > len(side.ranks):
            yield _story(case, end, call, side, tuple(sorted(alike[key])))


def _story(
    case: Case, end: End, call: Call, side: Signed, ranks: tuple[int, ...]
) -> Story:
    """Return the story that `ranks` called as one side of a call did."""
    is_op = side.aspect == "op"
    return Story(
        SLUGS[side.aspect],
        ranks,
        {**call, "stack": side.stack, "op": side.what if is_op else call["op"]},
        what=side.what,
        costs=(
            *sides.blame(case, end, "mismatch", ranks),
            *_claimed(case, side.aspect, ranks),
            ("known elsewhere", _other_call(case, end, call, side, ranks)),
            ("said over", float({*ranks} <= case.over)),
            ("barrier", float(_is_barrier(case, end, side, ranks))),
            ("named place", 2.0 * _is_named(case, end, ranks)),
            ("came before", float(_is_wanted(case, end, call["call"], ranks))),
        ),
    )


def _claimed(
    case: Case, aspect: str, ranks: tuple[int, ...]
) -> Iterator[tuple[str, float]]:
    """Yield what it costs that ranks made no unusual call; without history, nothing."""
    if aspect == "op":
        yield from (c for c in sides.claimed(case, ranks) if c[0] == "no surprise")


def _side(case: Case, end: End, ranks: tuple[int, ...]) -> sides.Side | None:
    return next((s for s in sides.odd(case, end) if s.ranks == ranks), None)


def _other_call(
    case: Case, end: End, call: Call, signed: Signed, ranks: tuple[int, ...]
) -> float:
    """Return, from 0 to 1, how clearly ranks are in another call of the program.

    Their call is extra and does not replace another; or, where only its sizes differ,
    nobody else makes it at that place in the code.
    """
    if signed.aspect == "shape" and stack_ways.is_elsewhere(case, ranks, call):
        return 1.0
    side = _side(case, end, ranks)
    if side is None or side.bits is None or side.kind not in EXTRA:
        return 0.0
    span = max(weights.EXPECTED - weights.NOISE, 1.0)
    return min(max((side.bits - weights.NOISE) / span, 0.0), 1.0)


def _is_barrier(case: Case, end: End, signed: Signed, ranks: tuple[int, ...]) -> bool:
    if "barrier" in signed.what.lower():
        return True
    side = None if signed.aspect == "op" else _side(case, end, ranks)
    return side is not None and call_sites.of(case, side).barrier


def _is_named(case: Case, end: End, ranks: tuple[int, ...]) -> bool:
    """Whether the ranks are in a function that few ranks, or all at the end, reach."""
    side = _side(case, end, ranks)
    if side is None or stack_ways.is_at_one_place(case, ranks, side.call):
        return False
    return call_sites.of(case, side).named != ""


def _is_wanted(case: Case, end: End, number: int, ranks: tuple[int, ...]) -> bool:
    """Whether others wait for some ranks in another call of the end.

    A rank that only differs in one call has made all calls before it.
    """
    calls = (case.calls[n] for n in end.calls if n != number)
    return any({*ranks} & {*(call["absent"] or ())} for call in calls)
