"""The ends of a standstill: where the waits of all ranks lead.

Waiting ranks and calls are folded onto what they wait for. What remains are the ends:
ranks that wait for nobody, calls that all members joined, calls that peers have
finished, cycles (kind `circle`), and ranks without any evidence. Each end is explained
separately.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces import call_summary
from ncclforensics.correlate.traces.progress import UNLISTED
from ncclforensics.correlate.waits import wait_graph
from ncclforensics.theory import standstill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.theory.case import Call, Case

Kind = Literal[
    "absent", "unseen", "full", "stalled", "unstarted", "circle", "idle", "late"
]
OTHERS = ("absent", "unseen")


@dataclass(frozen=True, slots=True)
class End:
    """Where waits end: the ranks there, and the calls through which others wait.

    `calls` are call numbers; for a cycle, the calls its ranks wait in. `blocked` are
    all ranks that wait for the end, directly or through others. `unseen` are ranks
    without evidence that are waited for as well.
    """

    kind: Kind
    ranks: tuple[int, ...]
    calls: tuple[int, ...]
    blocked: frozenset[int] = field(default=frozenset())
    unseen: tuple[int, ...] = ()

    @property
    def lacks(self) -> bool:
        """Whether nothing shows what some rank did that is waited for."""
        return bool(self.unseen) or self.kind == "unseen"


def ends_of(case: Case) -> tuple[End, ...]:
    """Return the ends of a case, those that block most ranks first."""
    if case.resumed:
        return tuple(_late(case, call) for call in case.resumed)
    found = _closed(case, [_with_blocked(case, end) for end in _ends(case)])
    if idle := _idle(case):
        found.append(End("idle", idle, ()))
    return tuple(
        sorted(found, key=lambda end: (-len(end.blocked), end.kind, end.ranks))
    )


def is_crossed(case: Case, end: End) -> bool:
    """Whether the ranks of an end wait for each other in several collectives."""
    several = end.kind == "circle" and len(end.calls) > 1
    return several and not any(case.calls[n]["is_p2p"] for n in end.calls)


def _closed(case: Case, found: list[End]) -> list[End]:
    """Return the ends; a call in which members must be missing, as a cycle.

    That is one with one rank in it, or the first of its group, in which not all ranks
    are: no call that ended shows who its members are, and nothing lists them. If all
    ranks of the job wait, they are among those, unless another such call has members of
    its own. Where all others are in one such call, it is that rank for which they wait.
    """
    unlisted = [end for end in found if _is_unlisted(case, end)]
    lone = [
        end
        for end in unlisted
        if len(end.ranks) == 1
        or not (_has_ended(case, end) or world.is_everyone(case.frames, {*end.ranks}))
    ]
    if len(lone) != 1 or len(unlisted) > len(lone) + 1:
        return found
    waits = {rank for end in found for rank in end.blocked} | case.waited | case.mute
    waits |= {rank for end in found if end.kind not in OTHERS for rank in end.ranks}
    gap = len(waits) <= max(waits)
    if gap or not world.is_everyone(case.frames, waits):
        return found
    others = [end for end in unlisted if end not in lone]
    here = {rank for end in unlisted for rank in end.ranks}
    if others and not world.is_everyone(case.frames, here):
        return found
    rest = [end for end in found if end not in unlisted]
    return [*rest, _with_callers(case, lone[0], others)]


def _is_unlisted(case: Case, end: End) -> bool:
    """Whether an end is a call that all came to, in a group that nothing lists."""
    if end.kind != "full":
        return False
    call = case.calls[end.calls[0]]
    # a stack may show that a process waits, but not that it is in a call
    return str(call["group"]).endswith(UNLISTED) and call["op"] is not None


def _has_ended(case: Case, end: End) -> bool:
    """Whether a call of the group of an end was ever completed, as dumps show."""
    call = case.calls[end.calls[0]]
    if call["pg"] is None or not case.frames.has("collectives"):
        return True
    here = pl.col("group") == call["group"]
    made = case.frames["standings"].filter(here)["completed"]
    return bool((made > 0).any())


def _with_callers(case: Case, end: End, others: list[End]) -> End:
    """Return the cycle of a rank in such a call and the ranks that wait for it.

    Those at `others` wait for it in a call of which nothing lists the members, either.
    """
    wanted = case.graph.wanted_in.get(end.ranks[0], ())
    calls = (*end.calls, *wanted, *(n for other in others for n in other.calls))
    ranks = {r for number in calls for r in case.graph.waiters[number]}
    if len(ranks) == 1:
        return end
    blocked = end.blocked.union(*(other.blocked for other in others))
    return End("circle", tuple(sorted(ranks)), calls, blocked)


def _late(case: Case, call: Call) -> End:
    """Return the end for a wait that is over: the ranks that came last."""
    ranks = tuple(case.late[call["call"]]["rank"].sort())
    return End("late", ranks, (call["call"],))


def between_calls(case: Case) -> frozenset[int]:
    """Return live ranks that are in no call and that nobody waits for."""
    ended = case.frames["exits"].filter(pl.col("code") == 0)["rank"]
    idle = case.frames["roots"].filter(
        (pl.col("why") == "idle") & ~pl.col("rank").is_in(ended.implode())
    )
    return frozenset(idle["rank"])


def _idle(case: Case) -> tuple[int, ...]:
    """Return the ranks between two calls where the job is known to stand still.

    In a running job, that is where ranks are most of the time.
    """
    if standstill.standing(case.frames).answer != "yes":
        return ()
    ranks = tuple(sorted(between_calls(case)))
    return ranks if 2 * len(ranks) <= len(case.seen) else ()


def _with_blocked(case: Case, end: End) -> End:
    waiting = {r for c in end.calls for r in case.graph.waiters[c]}
    hang = wait_graph.behind(case.graph, sorted({*end.ranks, *waiting}))
    return End(
        end.kind,
        end.ranks,
        end.calls,
        frozenset(
            (hang | waiting) - {*end.ranks} if end.kind in OTHERS else hang | waiting
        ),
        end.unseen,
    )


def _ends(case: Case) -> list[End]:
    told = case.graph
    component = wait_graph.components(told)
    ranks: dict[int, list[int]] = {}
    calls: dict[int, list[int]] = {}
    for node, number in component.items():
        (ranks if node >= 0 else calls).setdefault(number, []).append(
            node if node >= 0 else ~node
        )
    leaves: dict[int, set[int]] = {}
    for rank, held in told.calls_of.items():
        for number in held:
            if component[~number] != component[rank]:
                leaves.setdefault(component[rank], set()).add(component[~number])
    for number, wanted in told.why.items():
        for rank in wanted:
            if component[rank] != component[~number]:
                leaves.setdefault(component[~number], set()).add(component[rank])
    words = [pair for wanted in told.why.values() for pair in wanted.items()]
    # one call that a rank's dump does not have shows where it is
    dumped = {*call_summary.dumps(case.frames)["rank"].drop_nulls()}
    shown = {rank for rank, word in words if word == "absent"} & dumped
    unseen_of = {
        component[rank]: rank
        for rank, word in words
        if word == "unseen" and rank not in shown
    }
    found: list[End] = []
    gone: list[int] = []
    for number in {*ranks, *calls}:
        out = leaves.get(number, set())
        here = tuple(sorted(ranks.get(number, ())))
        own = tuple(sorted(calls.get(number, ())))
        last = _sinks(number, leaves) if len(here) > 1 else set()
        # several GPUs that have not begun a call wait for nobody but each other
        unstarted = case.calls[own[0]]["unstarted"] or () if len(own) == 1 else ()
        if here and {*here} <= {*unstarted} and out <= unseen_of.keys():
            unseen = tuple(sorted(unseen_of[n] for n in out))
            found.append(End("unstarted", here, own, unseen=unseen))
        elif len(here) > 1 and last <= unseen_of.keys():
            unseen = tuple(sorted(unseen_of[n] for n in last))
            found.append(End("circle", here, own, unseen=unseen))
        elif out:
            continue
        elif len(own) == 1 and not here:
            call = case.calls[own[0]]
            kind: Kind = "stalled" if call["done"] else "full"
            found.append(End(kind, tuple(call["waiting"]), own))
        elif own and len(here) == 1:
            found.append(End("unstarted", here, own))
        elif here and number not in unseen_of:
            gone += here
    found += _absent(case, gone)
    found += _unseen(case, found, list(unseen_of.values()))
    return found


def _sinks(number: int, leaves: Mapping[int, set[int]]) -> set[int]:
    """Return the components without waits of their own that a component waits for."""
    seen, left = {number}, [number]
    while left:
        new = leaves.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return {n for n in seen if n not in leaves} - {number}


def _absent(case: Case, gone: list[int]) -> list[End]:
    """Return the ends of absent ranks; ranks that share a waiting call form one."""
    parts: list[tuple[set[int], set[int]]] = []
    for rank in sorted(gone):
        mine = ({rank}, set(case.graph.wanted_in.get(rank, ())))
        joined = [part for part in parts if part[1] & mine[1]]
        parts = [part for part in parts if part not in joined]
        parts.append(
            (
                mine[0].union(*(p[0] for p in joined)),
                mine[1].union(*(p[1] for p in joined)),
            )
        )
    return [
        End("absent", tuple(sorted(ranks)), tuple(sorted(calls)))
        for ranks, calls in parts
    ]


def _unseen(case: Case, found: list[End], unseen: list[int]) -> list[End]:
    """Return one end for unseen ranks that alone explain why somebody waits."""
    told = case.graph
    ends = [r for end in found for r in (*end.ranks, *end.unseen)]
    explained = wait_graph.behind(told, ends) | set(ends)
    only = {
        call: wanted
        for call, wanted in told.why.items()
        if wanted
        and set(told.waiters[call]) - explained
        and any(rank in unseen for rank in wanted)
    }
    lost = sorted({r for w in only.values() for r in w if r in unseen})
    if not lost:
        return []
    calls = tuple(sorted(c for c, w in only.items() if {*w} <= {*lost}))
    return [End("unseen", tuple(lost), calls)] if calls else []
