"""The chain of waits from one rank down to a rank that does not wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ncclforensics.model.folding import count, fold_ranks, name_ranks, noun, some
from ncclforensics.model.words import name_group
from ncclforensics.report.timeline import naming

if TYPE_CHECKING:
    from ncclforensics.report.timeline.timeline import Timeline

MOST = 200
_WHY = {
    "absent": "never made that call",
    "behind": "is held up earlier",
    "unseen": "unseen: no evidence of it",
    "unstarted": "made it, but its GPU has not started it",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the chain: depth, text, and where it leads (a rank, a call)."""

    depth: int
    text: str
    rank: int
    kind: str | None = None
    n: int | None = None


def steps(timeline: Timeline, rank: int) -> list[Step]:
    """Return the chain of waits from `rank`, and the ranks that wait for it.

    A chain of several steps is preceded by a line with its end.
    """
    calls = {row["call"]: row for row in timeline.frames["calls"].to_dicts()}
    waiting = {r: call for call, row in calls.items() for r in row["waiting"] or ()}
    unseen = {r for row in calls.values() for r in row["unseen"] or ()}
    kinds = {
        (pg, desc): kind
        for kind, pg, desc, p2p in timeline.groups.select("kind", *naming.KEY)
        .unique()
        .sort("kind")
        .iter_rows()
        if not p2p
    }
    found: list[Step] = []
    seen: set[int] = set()
    path: list[int] = []
    ends: dict[int, Step] = {}

    def follow(
        one: int, depth: int, why: str, to: tuple[str | None, int | None]
    ) -> None:
        if len(found) >= MOST:
            return
        call = calls.get(waiting.get(one, -1))
        if call is None:
            told = f"{why}; it waits in no call" if why else " waits in no call"
            known = one not in unseen
            found.append(Step(depth, f"rank {one}{told if known else why}", one, *to))
            if known and depth > 1:
                ends.setdefault(one, found[-1])
            return
        kind = kinds.get((call["pg"] or "", call["pg_desc"] or ""))
        it = ": it" if why else ""
        said = f"rank {one}{why}{it} waits in {_name(call)}"
        again = one in seen
        said += " (a circle)" if one in path else " (see above)" if again else ""
        found.append(Step(depth, said, one, kind, call["seq"]))
        if again:
            return
        seen.add(one)
        path.append(one)
        for word in ("unstarted", "absent", "behind", "unseen"):
            wanted = [r for r in call.get(word) or () if r != one]
            for other in wanted[:8]:
                follow(other, depth + 1, f" {_WHY[word]}", (kind, call["seq"]))
            if len(wanted) > 8:
                listed = some(fold_ranks(wanted[8:]), 40)
                more = count(len(wanted) - 8, "more rank")
                said = f"{more} {_WHY[word]}: {listed}"
                found.append(Step(depth + 1, said, wanted[8]))
        path.pop()

    follow(rank, 0, "", (None, None))
    if ends:
        said = f"this leads to {name_ranks(ends, most=40)}"
        found.insert(0, replace(ends[min(ends)], depth=0, text=said))
    for call in calls.values():
        for word in ("unstarted", "absent", "behind", "unseen"):
            if rank in (call.get(word) or ()) and call["waiting"]:
                ranks = call["waiting"]
                wait = noun(len(ranks), "waits", "wait")
                who = name_ranks(ranks, most=40)
                said = f"{who} {wait} for rank {rank} in {_name(call)}"
                kind = kinds.get((call["pg"] or "", call["pg_desc"] or ""))
                found.append(Step(0, said, call["waiting"][0], kind, call["seq"]))
    return found[:MOST]


def _name(call: dict[str, Any]) -> str:
    """Name a call as the report does."""
    number = f" SeqNum={call['seq']}" if call["seq"] else ""
    group = name_group(call["pg"], call["pg_desc"])
    return f"{call['op'] or 'a call'}{number} on {group}"
