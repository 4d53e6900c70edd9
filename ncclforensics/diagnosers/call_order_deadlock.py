"""Ranks wait for each other in a circle, each in another group.

What it means
    Two groups share ranks, and the ranks enter their collectives in different order:
    one waits in the first for a rank that waits in the second for it. Nobody is late,
    and nobody can go on. So it is with two ranks that both send before they receive.

How we know
    Following who waits for whom over all groups leads back to where it began, and all
    calls of the circle are ones that its ranks make in every step, or all are sends and
    nobody has made a call behind its own. Every rank of the circle is named, with the
    call that each is in: which of the two orders is the wrong one, no dump tells.

What to do
    Make every rank enter the groups in one order, or give the calls streams and async
    handles of their own that do not depend on each other.

Looks like
    Two absent ranks in two groups are two `missing-rank`s: there the chains end.
    A circle that a call closes which the others never make is
    `rank-conditional-collective` or `uneven-inputs`, one that a skipped message closes
    is `unmatched-p2p`.

References
    NCCL user guide, using multiple communicators concurrently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.diagnosers.clues import common, divergence, roots
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "desync"
NEEDS = ("standings",)
MISSING = "no dump, and no line of how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p")
SPREADS = True

REMEDY = ("make every rank enter these groups in the same order",)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks of each circle of waits."""
    for found in divergence.divergences(frames):
        if found.kind != "order":
            continue
        calls = [found.call, *found.others]
        circle = set(found.ranks)
        described = [common.collective(frames, call) for call in calls]
        inside = [
            f"{common.plural('rank', [r for r in call['waiting'] if r in circle])} in "
            f"{common.call_words(what)}"
            + (f" at {what.call_site}" if what.call_site else "")
            for call, what in zip(calls, described, strict=True)
        ]
        yield Finding(
            slug="call-order-deadlock",
            confidence=roots.confidence(frames) if found.odd else "possible",
            headline=f"{common.plural('rank', found.ranks)} wait for each other in a "
            "circle",
            evidence=tuple(
                cite
                for call in calls
                for cite in roots.waiting(
                    frames, call, [r for r in call["waiting"] if r in circle]
                )
            )[:6],
            explanation=f"Each of these ranks waits for another of them: "
            f"{'; '.join(inside[:6])}.{roots.others_behind(frames, found.ranks)}",
            remedy=REMEDY,
            ranks=found.odd,
            hosts=common.hosts_of(frames, found.odd),
            devices=common.devices_of(frames, found.odd),
            collective=described[0],
            first_seen=min(
                (t for call in calls if (t := roots.onset(frames, call)) is not None),
                default=None,
            ),
        )
