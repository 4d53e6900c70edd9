"""Members of one call that call another operation, or pass other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides
from ncclforensics.theory.story import Story, culprits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case, End

SLUGS = {"op": "collective-mismatch", "shape": "shape-mismatch"}


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame each side of each call of the end on which members differ."""
    for number in end.calls:
        call = case.calls[number]
        if number in case.unbalanced:
            yield Story(
                "shape-mismatch",
                (),
                call,
                what="unbalanced",
                costs=(("shape-mismatch", 1.0), *sides.unexplained(case, end, ())),
            )
        told = case.sides.get(number, ())
        for side in told:
            ranks = tuple(sorted(side.ranks))
            deviation = case.deviation(ranks[0])
            extra = (
                deviation is not None
                and deviation.bits >= sides.NOISE
                and _kind(case, end, ranks) in ("extra", "left", "skip", "swap")
            )
            slug = SLUGS[side.aspect]
            yield Story(
                slug,
                ranks,
                {**call, "stack": side.stack},
                what=side.what,
                costs=(
                    (slug, 1.0),
                    *culprits(case, ranks),
                    *sides.unexplained(case, end, ranks),
                    ("known elsewhere", float(extra)),
                    ("culprit", float(len(call["unseen"] or ()) > 0)),
                ),
            )


def _kind(case: Case, end: End, ranks: tuple[int, ...]) -> str:
    side = next((s for s in sides.sides(case, end) if s.ranks == ranks), None)
    return side.edit.kind if side is not None and side.edit is not None else ""
