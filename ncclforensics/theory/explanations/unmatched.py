"""Ranks that skipped their half of a message and went on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import p2p_balance, sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case, End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame sides that owe messages; counts or programs show that they skipped them."""
    if end.kind not in ("circle", "absent"):
        return
    for side in sides.odd(case, end):
        if not side.owes:
            continue
        short = p2p_balance.shortages(case, end, side.ranks)
        skipped = sides.skips_messages(case, side)
        known = [told for told in short if told is not None]
        proved = any(known)
        denied = bool(known) and not proved
        yield Story(
            "unmatched-p2p",
            side.ranks,
            side.call,
            side.others,
            costs=(
                *sides.blame(case, end, "off program", side.ranks),
                *(() if proved else sides.claimed(case, side.ranks)),
                ("halves", float(denied and not skipped)),
                ("known elsewhere", float(not proved and not skipped)),
            ),
        )
