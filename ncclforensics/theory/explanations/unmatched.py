"""Ranks that skipped their half of a message and went on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import p2p_balance, sides, strayed_messages
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame sides that owe messages, or whose program shows that they skipped some."""
    if end.kind not in ("circle", "absent"):
        return
    found = sides.odd(case, end)
    owing = {side.ranks for side in found if side.owes}
    for side in found:
        if not side.owes:
            if side.ranks not in owing:
                yield from _by_program(case, end, side)
            continue
        short = p2p_balance.shortages(case, end, side.ranks)
        skipped = strayed_messages.how(case, side) != ""
        known = [told for told in short if told is not None]
        proved = any(known)
        denied = bool(known) and not proved
        # lines of timeouts do not show what else was sent
        recorded = case.program.calls["rank"].is_in(side.ranks).any()
        yield Story(
            "unmatched-p2p",
            side.ranks,
            side.call,
            side.others,
            costs=(
                *sides.blame(case, end, "off program", side.ranks),
                *(() if proved else sides.claimed(case, side.ranks, side.call)),
                ("halves", float(denied and not skipped)),
                # who left out one message makes the calls behind it
                ("unexplained wait", _skipped(case, end, side)),
                ("known elsewhere", float(recorded and not proved and not skipped)),
            ),
        )


def _skipped(case: Case, end: End, side: sides.Side) -> int:
    """Return how many collectives a side skipped besides its message.

    A side that waits in no call has not gone on to the collectives that lack it.
    """
    if end.kind == "circle":
        return sides.skipped(case, end, side)
    calls = (case.calls[n] for n in end.calls)
    lacks = [c for c in calls if {*side.ranks} & {*(c["absent"] or ())}]
    return sum(not call["is_p2p"] for call in lacks)


def _by_program(case: Case, end: End, side: sides.Side) -> Iterator[Story]:
    """Blame a side that skipped a message of its program, or made another in its place.

    Later messages then take the place of the one that is missing, so counts alone do
    not show it.
    """
    if side.edit is None or not (what := strayed_messages.how(case, side)):
        return
    yield Story(
        "unmatched-p2p",
        side.ranks,
        side.call,
        side.others,
        what=what,
        costs=(
            *sides.blame(case, end, "off program", side.ranks),
            *sides.claimed(case, side.ranks),
            # a rank that has made no call since may still make it
            ("came back", float(what == "skipped" and side.edit.behind == 0)),
            ("halves", float(what == "skipped" and _owes_in_part(case, end, side))),
        ),
    )


def _owes_in_part(case: Case, end: End, side: sides.Side) -> bool:
    """Whether some ranks of a side owe a half of a message, and others none."""
    calls = (case.calls[n] for n in end.calls)
    owing = {rank for c in calls if c["is_p2p"] for rank in c["absent"] or ()}
    return bool(owing & {*side.ranks}) and not {*side.ranks} <= owing
