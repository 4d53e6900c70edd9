"""Whether an edit lets all ranks go on: who still waits after it.

Ranks that the story sets free come to every call that wants them, and calls that it
lets end do so. What follows is a fixed point: a call of which nobody is missing any
more ends, and who waited in it comes to all else. Of ranks without evidence nothing is
held against a story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.correlate.waits.wait_graph import Graph


def still_waiting(
    told: Graph,
    goes_on: Iterable[int],
    ends: Iterable[int] = (),
    fallen: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Return the ranks that wait even if `goes_on` come and the calls `ends` end.

    Of the ranks without evidence in a call those that are `fallen` never come.
    """
    free = set(goes_on)
    over = set(ends)
    missing = {
        call: {r for r, word in wanted.items() if word != "unseen" or r in fallen}
        for call, wanted in told.why.items()
    }
    left = {rank: set(own) for rank, own in told.calls_of.items()}
    pending = [call for call in missing if call in over or missing[call] <= free]
    done: set[int] = set()
    while pending:
        call = pending.pop()
        if call in done:
            continue
        done.add(call)
        for rank in told.waiters[call]:
            left[rank].discard(call)
            if left[rank] or rank in free:
                continue
            free.add(rank)
            pending += [
                other
                for other in told.wanted_in.get(rank, ())
                if other not in done and missing[other] <= free
            ]
    return frozenset(rank for rank, own in left.items() if own and rank not in free)
