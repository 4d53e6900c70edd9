"""The wait-for graph in a few boxes: from the crowd, group by group, to the culprit.

It is read from the frame `calls`, backwards from the ranks at which waits end: those
that the verdict names, else the roots of the waits, else the suspects. Ranks that wait
in the same kind of call for the same box share a box. A rank is in one box only, the
one nearest to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ncclforensics.report.folding import count, fold_spread, some
from ncclforensics.report.phrases import who
from ncclforensics.report.rank_calls import accused
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report

    Calls = Sequence[dict[str, Any]]

MOST_LEVELS, MOST_IN_LEVEL = 5, 3
NAME, WHO = 300, 44  # characters; names are cut to fit only once they are redacted
SIDES = {
    "absent": "never made that call",
    "behind": "held up in an earlier call",
    "unseen": "no evidence of it",
    "unstarted": "made it, and its GPU has not begun it",
}


class Box(Struct, frozen=True):
    """Ranks that wait alike: lines of text, and the boxes that they wait for.

    `level` is 0 where the waits end, 1 for ranks that wait directly for that, …
    """

    level: int
    lines: tuple[str, ...]
    waits_for: tuple[int, ...] = ()


class WaitGroups(Struct, frozen=True):
    """The boxes, the ends first, and how many waiting ranks are in none of them."""

    boxes: tuple[Box, ...]
    ranks: int
    more_ranks: int


def wait_groups(report: Report, frames: Frames) -> WaitGroups | None:
    """Return the boxes; None if nobody waits for anybody, or the end is unknown."""
    calls = [row for row in frames["calls"].iter_rows(named=True) if row["waiting"]]
    ends = _ends(report, frames, calls)
    if not ends:
        return None
    last = _last(report, ends, calls)
    box_of = {rank: n for n, (ranks, _) in enumerate(last) for rank in ranks}
    found = [box for _, box in last]
    drawn: set[int] = set()
    nearest = set(ends)
    left = list(calls)
    for level in range(1, MOST_LEVELS + 1):
        direct = [call for call in left if not nearest.isdisjoint(_wanted(call))]
        left = [call for call in left if nearest.isdisjoint(_wanted(call))]
        alike: dict[Any, tuple[list[int], list[dict[str, Any]]]] = {}
        for call in direct:
            ranks = [rank for rank in call["waiting"] if rank not in box_of]
            to = {box_of[rank] for rank in _wanted(call) if rank in nearest}
            key = (call["pg_desc"], call["op"], tuple(sorted(to)))
            if ranks:
                known = alike.setdefault(key, ([], []))
                known[0].extend(ranks)
                known[1].append(call)
                box_of.update(dict.fromkeys(ranks, -1))
        largest = sorted(alike.items(), key=lambda told: -len(told[1][0]))
        nearest = set()
        for (*_, to), (ranks, own) in largest[:MOST_IN_LEVEL]:
            box_of.update(dict.fromkeys(ranks, len(found)))
            found.append(Box(level, _words(ranks, own), to))
            nearest.update(ranks)
        drawn |= nearest
    waiting = {rank for call in calls for rank in call["waiting"]}.difference(ends)
    return WaitGroups(tuple(found), len(drawn), len(waiting - drawn)) if drawn else None


def _ends(report: Report, frames: Frames, calls: Calls) -> list[int]:
    """Return the ranks at which waits end, as far as anybody waits for them."""
    wanted = {rank for call in calls for rank in _wanted(call)}
    named = () if report.verdict is None else report.verdict.culprits.ranks
    suspects = [suspect.rank for suspect in report.suspects]
    for ranks in (named, frames["roots"]["rank"].to_list(), suspects):
        if found := sorted(wanted.intersection(ranks)):
            return found
    return []


def _last(
    report: Report, ends: Sequence[int], calls: Calls
) -> list[tuple[list[int], Box]]:
    """Return the boxes of the ends, with their ranks: one for each reason."""
    alike: dict[tuple[str, str], list[int]] = {}
    named = accused(report)
    for rank in ends:
        sides = [s for s in SIDES if any(rank in (call[s] or ()) for call in calls)]
        waits = any(rank in call["waiting"] for call in calls)
        # it waits in a call of its own: a part of a circle, or in the wrong call
        is_held = waits and set(sides) <= {"absent", "behind"}
        words = "in another call, that is not over" if is_held else SIDES[sides[0]]
        alike.setdefault((words, named.get(rank, "")), []).append(rank)
    found = []
    for (words, who_it_is), ranks in alike.items():
        noun = "rank" if len(ranks) == 1 else "ranks"
        name = f"{noun} {some(fold_spread(ranks), 30)}"
        if report.verdict is not None and set(ranks) == named.keys():
            name = who(report.verdict.culprits, WHO)
        lines = (name, words, who_it_is) if who_it_is else (name, words)
        found.append((ranks, Box(0, lines)))
    return found


def _wanted(call: dict[str, Any]) -> set[int]:
    """Return the ranks that a call waits for."""
    return {rank for side in SIDES for rank in call[side] or ()}


def _words(ranks: Sequence[int], calls: Calls) -> tuple[str, ...]:
    """Return the lines of a box: its ranks, the call, the group or how many groups."""
    first, alone = calls[0], len(ranks) == 1
    folded = some(fold_spread(ranks), 26)
    numbers = {call["seq"] for call in calls if not call["is_p2p"]} - {None}
    seq = f" SeqNum={min(numbers)}" if len(numbers) == 1 else ""
    desc = first["pg_desc"] or "process"
    name = desc.removesuffix("_GROUP").removesuffix("_group")
    groups = {call["group"] for call in calls}
    where = f"{len(groups):,} {name} groups"
    if len(groups) == 1:
        where = f"{name} group {first['pg'] or 'without a name'}"
    told = (
        f"rank {folded}" if alone else f"{count(len(ranks), 'rank')}: {folded}",
        f"{'waits' if alone else 'wait'} in {first['op'] or 'a call'}{seq}",
        where,
    )
    return tuple(line(text, NAME) for text in told)
