"""Who waits for whom, and whom in the end everybody waits for.

An edge leads from a rank to each member of its call that is absent or behind. A rank
that others wait for and that waits for nobody is a root; ranks that wait for each other
in a circle have none. Ranks are few (thousands), so this is plain Python over calls,
not over edges: a thousand ranks in one call share its row.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ncclforensics import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl


def roots(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the `roots` frame of the `calls` frame.

    `why` is "absent" (the rank is in no call at all), "stalled" (it is in a call that
    its peers have finished) or "stuck" (in one that nobody has finished).
    """
    waiting_in: dict[int, int] = {}
    wanted: dict[int, dict[int, str]] = {}
    waiters: dict[int, list[int]] = {}
    rows = calls.select(
        "call", "waiting", "behind", "done", "absent", "unseen", "is_p2p"
    ).to_dicts()
    for row in rows:
        call = row["call"]
        waiters[call] = row["waiting"] or []
        waiting_in.update(dict.fromkeys(waiters[call], call))
        wanted[call] = {
            rank: why
            for why in ("behind", "absent", "unseen")
            for rank in row[why] or ()
        }
    collective = {row["call"]: not row["is_p2p"] for row in rows}
    direct: dict[int, list[int]] = defaultdict(list)
    for call, ranks in wanted.items():
        for rank in ranks:
            direct[rank].append(call)
    done = {row["call"]: row["done"] for row in rows}
    found = []
    for rank, through in sorted(direct.items()):
        own = waiting_in.get(rank)
        why = {wanted[call][rank] for call in through}
        if why == {"unseen"} or (own is not None and wanted[own]):
            continue
        held = "stalled" if own is not None and done[own] else "stuck"
        reason = "absent" if own is None else held
        most = max(
            through, key=lambda call: (collective[call], len(waiters[call]), -call)
        )
        blocked = _blocked(rank, direct, waiters)
        found.append(
            {
                "rank": rank,
                "why": reason,
                "call": most,
                "blocked": len(blocked),
            }
        )
    return tables.rows("roots", found)


def _blocked(
    rank: int, direct: dict[int, list[int]], waiters: dict[int, list[int]]
) -> set[int]:
    """Return the ranks that wait for `rank`, directly or through others."""
    blocked: set[int] = set()
    done_calls: set[int] = set()
    pending = [rank]
    while pending:
        for call in direct.get(pending.pop(), ()):
            if call not in done_calls:
                done_calls.add(call)
                pending.extend(set(waiters[call]) - blocked)
                blocked.update(waiters[call])
    return blocked - {rank}


def circles(calls: pl.DataFrame) -> list[tuple[int, ...]]:
    """Return the ranks of each circle of waits, smallest rank first."""
    edges: dict[int, set[int]] = {}
    for row in calls.select("waiting", "behind", "absent").to_dicts():
        for rank in row["waiting"] or ():
            edges[rank] = {*(row["behind"] or ()), *(row["absent"] or ())}
    # what leads nowhere cannot be part of a circle; peel it off until nothing is left
    leaves = {rank for wanted in edges.values() for rank in wanted} - edges.keys()
    leaves |= {rank for rank, wanted in edges.items() if not wanted}
    blamed_by: dict[int, set[int]] = defaultdict(set)
    for rank, wanted in edges.items():
        for other in wanted:
            blamed_by[other].add(rank)
    pending = list(leaves)
    while pending:
        for rank in blamed_by.pop(pending.pop(), ()):
            if rank in edges:
                del edges[rank]
                pending.append(rank)
    return _components(edges)


def _components(edges: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """Return the sets of ranks that reach each other, of more than one rank each."""

    def reach(start: int, along: dict[int, Iterable[int]]) -> set[int]:
        found: set[int] = set()
        pending = [start]
        while pending:
            for rank in along.get(pending.pop(), ()):
                if rank not in found:
                    found.add(rank)
                    pending.append(rank)
        return found

    back: dict[int, set[int]] = defaultdict(set)
    for rank, wanted in edges.items():
        for other in wanted:
            back[other].add(rank)
    left = set(edges)
    found = []
    while left:
        start = min(left)
        circle = reach(start, dict(edges)) & reach(start, dict(back))
        if len(circle) > 1:
            found.append(tuple(sorted(circle)))
        left -= circle | {start}
    return found
