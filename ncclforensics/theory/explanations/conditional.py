"""Ranks that make a call, behind a condition, that the others never make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.waits import last_words
from ncclforensics.theory import call_sites, sides, strayed_messages
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End

SLUG = "rank-conditional-collective"
# the cost if the program predicted the call later, or another call in its place
AGAINST = {
    "moved": 0.25,
    "other": 0.5,
    "skip": 1.5,
    "swap": 2.0,
    "left": 1.25,
    "usual": 1.0,
}


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame sides that are in a call that the others are not in."""
    yield from _after_the_end(case, end)
    if end.kind not in ("circle", "absent", *sides.JOINED):
        return
    lowest = min(sides.around(case, end), default=None)
    for side in sides.alone(case, end):
        if strayed_messages.how(case, side) == "replaced":
            continue  # a message: see `unmatched`
        place = call_sites.of(case, side)
        # a condition may also be on the stage, or on the host
        is_role = len(side.ranks) > 1 and case.units.of(side.ranks)[0] == 1
        yield Story(
            SLUG,
            side.ranks,
            side.call,
            side.others,
            costs=(
                *sides.blame_alone(case, end, "off program", side),
                *sides.claimed(case, side.ranks, side.call),
                ("known elsewhere", AGAINST.get(side.kind, 0.0)),
                ("named place", float(place.named == "uneven")),
                # if nobody waits in the loop, all have left it
                ("above the step", float(place.outside and end.kind != "absent")),
                ("in the loop", float(place.in_step)),
                ("barrier", float(place.barrier)),
                ("said over", float({*side.ranks} <= case.over)),
                ("first rank", float(lowest not in side.ranks and not is_role)),
                ("made by all", float(sides.is_shared(case, side) is True)),
            ),
        )


def _after_the_end(case: Case, end: End) -> Iterator[Story]:
    """Blame the ranks in a call for which all others said that their loop is over."""
    if end.kind not in ("absent", "unseen") or len(end.calls) > 1:
        return
    call = case.calls[end.calls[0]]
    waiting = tuple(call["waiting"])
    others = {*(call["absent"] or ()), *(call["unseen"] or ())}
    over = last_words.over(case.frames, frozenset(waiting)) | case.ended
    if others and others <= over and not call["is_p2p"]:
        yield Story(
            SLUG,
            waiting,
            call,
            what="after",
            costs=(*sides.blame(case, end, "off program", waiting), ("no history", 1)),
        )
