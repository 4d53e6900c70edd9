"""Ranks that enter two groups in a different order than the ranks of their role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import call_sites, sides, weights
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End

# the cost if the program does not predict the call a little later
AGAINST = {"extra": 1.5, "other": 2.0, "left": 1.5, "due": 1.5}
PREDICTED = ("swap", "skip", "moved")  # it does: the name of its place says no more


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame each side of a cycle; and the whole cycle, in case no side is odd."""
    if end.kind != "circle" or _is_by_place(case, end):
        return
    one_group = _is_one_number(case, end)
    for side in sides.odd(case, end):
        if side.owes or (one_group and side.kind not in PREDICTED):
            continue
        named = side.kind not in PREDICTED and call_sites.of(case, side).named != ""
        yield Story(
            "call-order-deadlock",
            side.ranks,
            side.call,
            side.others,
            costs=(
                *sides.blame_alone(case, end, "off program", side),
                ("moved", 1.0),
                *sides.claimed(case, side.ranks, side.call),
                ("known elsewhere", AGAINST.get(side.kind, 0.0)),
                ("named place", float(named)),
                ("made by all", float(sides.is_shared(case, side) is False)),
                # two calls that change places leave out one
                ("unexplained wait", max(sides.skipped(case, end, side) - 1, 0)),
                ("came back", float(side.kind == "skip" and _went_on(case, side))),
                ("barrier", float("barrier" in str(side.call["op"]).lower())),
                ("said over", float({*side.ranks} <= case.over)),
            ),
        )
    calls = [case.calls[n] for n in end.calls]
    # all ranks do the same half first; the other halves are posted, or still to come
    ops = {call["op"] if call["is_p2p"] else None for call in calls}
    posted = not any(call["absent"] for call in calls)
    alike = ops == {"send"} or (ops == {"recv"} and posted)
    yield Story(
        "call-order-deadlock",
        end.ranks,
        calls[0],
        tuple(calls[1:]),
        what="all alike" if alike else "all",
        costs=(
            *(("off program", 1.0), ("moved", 1.0)),
            *sides.unexplained(case, end, ()),
            *_as_before(case, end),
        ),
    )


def _as_before(case: Case, end: End) -> tuple[tuple[str, float], ...]:
    """Return what it costs that ranks make these calls as they did before.

    An order in which calls have ended is none that hangs.
    """
    told = [case.deviation(rank) for rank in end.ranks]
    own = [deviation.own for deviation in told if deviation is not None]
    if len(own) < len(told) or not own:
        return ()
    return (("no surprise", max(0.0, weights.EXPECTED - max(own))),)


def _is_one_number(case: Case, end: End) -> bool:
    """Whether the calls of a cycle are one number of one group, at several places.

    The order of two groups is not known to differ there.
    """
    calls = [case.calls[n] for n in end.calls]
    told = {(c["pg_desc"], c["seq"], *(c["members"] or ())) for c in calls}
    return len(told) == 1 and calls[0]["seq"] is not None and not calls[0]["is_p2p"]


def _is_by_place(case: Case, end: End) -> bool:
    """Whether the calls of a cycle are only known by their places in the code.

    Then nothing shows that they are of two groups.
    """
    calls = [case.calls[n] for n in end.calls]
    told = ("pg", "pg_desc", "seq")
    return not any(c["is_p2p"] or any(c[t] is not None for t in told) for c in calls)


def _went_on(case: Case, side: sides.Side) -> bool:
    """Whether a side skipped a message or a call of this group, or went on since."""
    assert side.edit is not None
    made, now = case.program.calls, side.edit.row
    return side.edit.behind > 0 or any(
        bool(made["is_p2p"][row]) or made["group"][row] == made["group"][now]
        for row in side.edit.skips
    )
