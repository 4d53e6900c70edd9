"""Ranks wait for each other in a circle, each in another group.

What it means
    Two groups share ranks, and the ranks enter their collectives in different order:
    one waits in the first for a rank that waits in the second for it. Nobody is late,
    and nobody can go on.

How we know
    Following who waits for whom over all groups leads back to where it began. Every
    rank of the circle is named, with the call that each is in; where both calls are of
    the same members and fewer took one than the other, those few.

What to do
    Make every rank enter the groups in one order, or give the calls streams and async
    handles of their own that do not depend on each other.

Looks like
    Two absent ranks in two groups are two `missing-rank`s: there the chains end.

References
    NCCL user guide, using multiple communicators concurrently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate import waits
from ncclforensics.diagnosers import common, roots
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "desync"
NEEDS = ("standings",)
MISSING = "no Flight Recorder dump, and no line that says how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p")
SPREADS = True

REMEDY = ("make every rank enter these groups in the same order",)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks of each circle of waits, or those that took the odd order."""
    for circle in waits.circles(frames["calls"]):
        held = pl.col("waiting").list.set_intersection(list(circle)).list.len() > 0
        calls: list[dict[str, Any]] = frames["calls"].filter(held).to_dicts()
        ranks = _odd(calls) or circle
        described = [common.collective(frames, call) for call in calls]
        inside = [
            f"{common.plural('rank', [r for r in call['waiting'] if r in circle])} in "
            f"{common.call_words(what)}"
            + (f" at {what.call_site}" if what.call_site else "")
            for call, what in zip(calls, described, strict=True)
        ]
        yield Finding(
            slug="call-order-deadlock",
            confidence="certain",
            headline=f"{common.plural('rank', circle)} wait for each other in a circle",
            evidence=tuple(c for call in calls for c in roots.waiting(frames, call))[
                :6
            ],
            explanation=f"Each of these ranks waits for another of them: "
            f"{'; '.join(inside[:6])}.",
            remedy=REMEDY,
            ranks=ranks,
            hosts=common.hosts_of(frames, ranks),
            devices=common.devices_of(frames, ranks),
            collective=described[0] if described else None,
            first_seen=min(
                (t for call in calls if (t := roots.onset(frames, call)) is not None),
                default=None,
            ),
        )


def _odd(calls: list[dict[str, Any]]) -> tuple[int, ...]:
    """Return the few of two calls of the same members, if one is taken by fewer."""
    if len(calls) != 2 or calls[0]["members"] != calls[1]["members"]:
        return ()
    few, many = sorted((call["waiting"] for call in calls), key=len)
    return tuple(few) if len(few) < len(many) else ()
