"""Replay a standstill without its cause: which ranks would still wait.

The ranks that a story sets free join every call that waits for them, and the calls that
it lets end do end. The rest is a fixed point: a call that misses nobody any more ends,
and the ranks that waited in it become free. Ranks without evidence are not held against
a story.
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
    """Return the ranks that still wait if `goes_on` come and the calls `ends` end.

    Ranks without evidence are assumed to come, except for those that are `fallen`.
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
