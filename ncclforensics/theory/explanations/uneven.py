"""Ranks that left their loop early and wait in a call after it, or exited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import call_sites, edits, sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End

# the cost if the call is not one that the program makes after the loop
AGAINST = {
    "due": 1.25,
    "moved": 1.5,
    "other": 0.5,
    "skip": 1.5,
    "swap": 2.0,
    "extra": 0.25,
    "unknown": 0.25,
    "usual": 1.0,
}


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame sides in a call after the loop, or ranks that exited or said it is over."""
    # that a rank is not among those that failed tells less than what it said
    left = case.over | (case.ended if end.kind == "absent" else set())
    if end.kind in ("absent", "unseen") and {*end.ranks} <= left:
        yield Story(
            "uneven-inputs",
            end.ranks,
            case.calls[end.calls[0]],
            what="ended",
            costs=(
                *sides.blame(case, end, "off program", end.ranks),
                ("no history", 1.0),
            ),
        )
    if end.kind not in ("circle", *sides.JOINED):
        return
    for side in sides.alone(case, end):
        place = call_sites.of(case, side)
        said = {*side.ranks} <= case.over
        yield Story(
            "uneven-inputs",
            side.ranks,
            side.call,
            side.others,
            costs=(
                *sides.blame_alone(case, end, "off program", side),
                *(() if said else sides.claimed(case, side.ranks, side.call)),
                ("known elsewhere", AGAINST.get(side.kind, 0.0)),
                ("named place", float(place.named == "conditional" and not said)),
                ("in the loop", _in_the_loop(side, place)),
                ("barrier", float(not place.barrier and not said)),
                (
                    "first rank",
                    float(sides.are_first(case, end, side.ranks) and not said),
                ),
                # who left out whole rounds is in another call under that number
                (
                    "made by all",
                    float(
                        sides.is_shared(case, side) is True
                        and side.kind != "left"
                        and sides.skipped(case, end, side) <= edits.FEW
                    ),
                ),
            ),
        )


def _in_the_loop(side: sides.Side, place: call_sites.Place) -> float:
    """Return, from 0 to 1, how clearly a side's call is one of its loop.

    A line above the loop's last one tells less where the call comes after many rounds.
    """
    if place.in_step or _goes_on(side):
        return 1.0
    return float(place.inside) * (0.5 if side.kind == "left" else 1.0)


def _goes_on(side: sides.Side) -> bool:
    """Whether a side made the calls of its loop behind the call that is not of it."""
    return side.edit is not None and side.edit.goes_on
