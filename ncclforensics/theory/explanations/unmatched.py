"""Ranks that left out their half of a message and went on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import halves, sides
from ncclforensics.theory.story import Story, culprits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case, End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame who owes messages; counts or programs show that they were left out."""
    if end.kind not in ("circle", "absent"):
        return
    for side in sides.sides(case, end):
        if not side.owes:
            continue
        short = halves.shortages(case, end, side.ranks)
        skipped = (
            side.edit is not None and side.edit.kind == "skip" and _talk(case, side)
        )
        known = [told for told in short if told is not None]
        proved = any(known)
        denied = bool(known) and not proved
        yield Story(
            "unmatched-p2p",
            side.ranks,
            side.call,
            side.others,
            costs=(
                ("unmatched-p2p", 1.0),
                *culprits(case, side.ranks),
                *sides.unexplained(case, end, side.ranks),
                *(() if proved else sides.claimed(case, side.ranks)),
                ("halves", float(denied and not skipped)),
                ("known elsewhere", float(not proved and not skipped)),
            ),
        )


def _talk(case: Case, side: sides.Side) -> bool:
    """Whether messages are among what the side's program skipped."""
    assert side.edit is not None
    return any(bool(case.program.calls["is_p2p"][row]) for row in side.edit.skips)
