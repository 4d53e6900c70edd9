"""The wait-for graph: who waits for whom, and its roots.

A rank waits in its call for each member that is absent or behind, or whose GPU has not
started the call when others' have; in a batch of messages it waits in all of them. A
rank that others wait for and that waits for nobody is a root; ranks that wait for each
other in a cycle have none. Ranks and calls are the nodes, so a thousand ranks in one
call share its edges, and everything is linear.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncclforensics.model import tables

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Graph:
    """Calls by number: who waits in each, and for whom; and the reverse by rank.

    `calls_of` has the calls that a rank is held in, `wanted_in` those that wait for it;
    `why` has a word per call and wanted rank. `done` are the calls that some rank has
    finished, `collective` those that are not P2P.
    """

    waiters: dict[int, list[int]] = field(default_factory=dict)
    why: dict[int, dict[int, str]] = field(default_factory=dict)
    calls_of: dict[int, list[int]] = field(default_factory=dict)
    wanted_in: dict[int, list[int]] = field(default_factory=dict)
    done: frozenset[int] = frozenset()
    collective: frozenset[int] = frozenset()


def graph(calls: pl.DataFrame) -> Graph:
    """Return the wait-for graph of the `calls` frame."""
    if calls.is_empty():
        return Graph({}, {}, {}, {}, frozenset(), frozenset())
    waiters: dict[int, list[int]] = {}
    why: dict[int, dict[int, str]] = {}
    calls_of: dict[int, list[int]] = defaultdict(list)
    wanted_in: dict[int, list[int]] = defaultdict(list)
    done, collective = set(), set()
    for row in calls.iter_rows(named=True):
        call = row["call"]
        if row["done"]:
            done.add(call)
        if not row["is_p2p"]:
            collective.add(call)
        waiters[call] = row["waiting"] or []
        for rank in waiters[call]:
            calls_of[rank].append(call)
        why[call] = {
            rank: word
            for word in ("unstarted", "behind", "absent", "unseen")
            for rank in row[word] or ()
        }
        for rank in why[call]:
            wanted_in[rank].append(call)
    return Graph(
        waiters,
        why,
        dict(calls_of),
        dict(wanted_in),
        frozenset(done),
        frozenset(collective),
    )


def roots(
    calls: pl.DataFrame, mute: frozenset[int] | set[int] = frozenset()
) -> pl.DataFrame:
    """Return the `roots` frame of the `calls` frame.

    `why` is "absent" (the rank is in no call at all), "mute" (the same, but the rank is
    in `mute`: not all of what it may wait in is recorded), "stalled" (it is in a call
    that its peers have finished), "unstarted" (its GPU has not started one that its
    peers' have) or "stuck" (in one that no rank has finished). `blocked` is the number
    of ranks that wait for it, directly or through others.
    """
    if calls.is_empty():
        return tables.empty("roots")
    told = graph(calls)
    blocked: dict[tuple[int, ...], int] = {}
    found = []
    for rank, through in sorted(told.wanted_in.items()):
        own = told.calls_of.get(rank, [])
        words = {told.why[call][rank] for call in through}
        if words == {"unseen"} or not _is_end(told, rank, own):
            continue
        reason = "mute" if rank in mute else "absent"
        if own:
            reason = "stuck" if told.done.isdisjoint(own) else "stalled"
            late = any(told.why[call].get(rank) == "unstarted" for call in own)
            reason = "unstarted" if late else reason
        most = max(
            through,
            key=lambda call: (
                call in told.collective,
                len(told.waiters[call]),
                -call,
            ),
        )
        ways = tuple(through)
        if ways not in blocked:
            blocked[ways] = len(behind(told, [rank]))
        found.append(
            {"rank": rank, "why": reason, "call": most, "blocked": blocked[ways]}
        )
    return tables.rows("roots", found)


def _is_end(told: Graph, rank: int, own: list[int]) -> bool:
    """Whether a rank waits for no other, not even in its own calls."""
    for call in own:
        wanted = told.why[call]
        if wanted.get(rank) == "unstarted":
            if not {*wanted.values()} <= {"unstarted", "unseen"}:
                return False
        elif wanted:
            return False
    return True


def behind(told: Graph, ranks: list[int]) -> set[int]:
    """Return the ranks that wait for `ranks`, directly or through others."""
    blocked: set[int] = set()
    done_calls: set[int] = set()
    pending = list(ranks)
    while pending:
        for call in told.wanted_in.get(pending.pop(), ()):
            if call not in done_calls:
                done_calls.add(call)
                pending.extend(set(told.waiters[call]) - blocked)
                blocked.update(told.waiters[call])
    return blocked - set(ranks)


def components(told: Graph) -> dict[int, int]:
    """Number the strongly connected components; ranks are nodes, calls negative ones.

    Ranks without evidence are nodes as well, with no known outgoing edge. Tarjan's
    algorithm without recursion.
    """
    steps = {rank: [~c for c in own] for rank, own in told.calls_of.items()}
    for call, wanted in told.why.items():
        steps[~call] = list(wanted)
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    stack: list[int] = []
    for start in steps:
        if start in order:
            continue
        path = [(start, iter(steps[start]))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while path:
            node, following = path[-1]
            for other in following:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    path.append((other, iter(steps.get(other, ()))))
                    break
                if other not in component:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    while component.get(node) is None:
                        component[stack.pop()] = order[node]
    return component
