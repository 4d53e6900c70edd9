"""The wait-for graph in a few boxes: from the crowd, group by group, to the culprit.

It is read from the frame `calls`, backwards from the ranks at which waits end: those
that the verdict names, else the roots of the waits, else the suspects. Ranks that wait
in the same kind of call for the same box share a box. A rank is in one box only, the
one nearest to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ncclforensics.model.folding import (
    count,
    fold_hosts,
    fold_ranks,
    name_folded,
    some,
)
from ncclforensics.model.words import name_groups
from ncclforensics.report.rank_calls import accused
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report

    Calls = list[tuple[dict[str, Any], dict[int, str]]]
    Alike = tuple[tuple[int, ...], list[int], list[dict[str, Any]]]

MOST_LEVELS, MOST_IN_LEVEL = 5, 3
NAME, HOSTS = 300, 24  # characters; names are cut to fit only once they are redacted
SIDES = {
    "absent": "never made that call",
    "behind": "held up in an earlier call",
    "unseen": "no evidence of it",
    "unstarted": "made it, but its GPU has not started it",
}
HELD = "in another call that has not finished"


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
    rows = frames["calls"].iter_rows(named=True)
    left: Calls = [(row, _wanted(row)) for row in rows if row["waiting"]]
    waiting = {rank for call, _ in left for rank in call["waiting"]}
    ends = _ends(report, frames, {rank for _, wanted in left for rank in wanted})
    found: list[Box] = []
    box_of: dict[int, int] = {}
    for ranks, box in _last(report, ends, left, waiting):
        box_of.update(dict.fromkeys(ranks, len(found)))
        found.append(box)
    nearest, drawn = ends, set[int]()
    for level in range(1, MOST_LEVELS + 1):
        direct = [told for told in left if not nearest.isdisjoint(told[1])]
        left = [told for told in left if nearest.isdisjoint(told[1])]
        alike = sorted(_alike(direct, nearest, box_of), key=lambda told: -len(told[1]))
        nearest = set()
        for to, ranks, own in alike[:MOST_IN_LEVEL]:
            box_of.update(dict.fromkeys(ranks, len(found)))
            found.append(Box(level, _words(ranks, own), to))
            nearest.update(ranks)
        drawn |= nearest
    if not drawn:
        return None
    return WaitGroups(tuple(found), len(drawn), len(waiting - ends - drawn))


def _wanted(call: dict[str, Any]) -> dict[int, str]:
    """Return the ranks that a call waits for, and why."""
    return {rank: side for side in SIDES for rank in call[side] or ()}


def _ends(report: Report, frames: Frames, wanted: set[int]) -> set[int]:
    """Return the ranks at which waits end, as far as anybody waits for them."""
    named = () if report.verdict is None else report.verdict.culprits.ranks
    suspects = [suspect.rank for suspect in report.suspects]
    either = (named, frames["roots"]["rank"].to_list(), suspects)
    return next((found for ranks in either if (found := wanted & {*ranks})), set())


def _last(
    report: Report, ends: set[int], calls: Calls, waiting: set[int]
) -> list[tuple[list[int], Box]]:
    """Return the boxes of the ends, with their ranks: one for each reason."""
    sides: dict[int, set[str]] = {rank: set() for rank in sorted(ends)}
    for _, wanted in calls:
        for rank in ends.intersection(wanted):
            sides[rank].add(wanted[rank])
    named = accused(report)
    alike: dict[tuple[str, str], list[int]] = {}
    for rank, why in sides.items():
        # it waits in a call of its own: a part of a circle, or in the wrong call
        is_held = rank in waiting and why <= {"absent", "behind"}
        words = HELD if is_held else next(SIDES[s] for s in SIDES if s in why)
        alike.setdefault((words, named.get(rank, "")), []).append(rank)
    found = []
    for (words, who_it_is), ranks in alike.items():
        name = name_folded(fold_ranks(ranks), 30)
        if report.verdict is not None and set(ranks) == named.keys():
            where = fold_hosts(report.verdict.culprits.hosts)
            name += f" on {where}" if 0 < len(where) <= HOSTS else ""
        lines = (name, words, who_it_is) if who_it_is else (name, words)
        found.append((ranks, Box(0, lines)))
    return found


def _alike(direct: Calls, nearest: set[int], box_of: dict[int, int]) -> list[Alike]:
    """Return (boxes, ranks, calls) of the calls that wait for `nearest`, folded.

    `box_of` has the ranks that are in a box already, and gets the others.
    """
    found: dict[Any, Alike] = {}
    for call, wanted in direct:
        ranks = [rank for rank in call["waiting"] if rank not in box_of]
        if not ranks:
            continue
        to = tuple(sorted({box_of[rank] for rank in nearest.intersection(wanted)}))
        key = (call["pg_desc"], call["op"], to)
        alike = found.setdefault(key, (to, [], []))
        alike[1].extend(ranks)
        alike[2].append(call)
        box_of.update(dict.fromkeys(ranks, -1))
    return list(found.values())


def _words(ranks: Sequence[int], calls: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return the lines of a box: its ranks, the call, the group or how many groups."""
    first, alone = calls[0], len(ranks) == 1
    folded = some(fold_ranks(ranks), 26)
    numbers = {call["seq"] for call in calls if not call["is_p2p"]} - {None}
    seq = f" SeqNum={min(numbers)}" if len(numbers) == 1 else ""
    groups = {call["group"]: call["pg"] for call in calls}
    told = (
        f"rank {folded}" if alone else f"{count(len(ranks), 'rank')}: {folded}",
        f"{'waits' if alone else 'wait'} in {first['op'] or 'a call'}{seq}",
        name_groups([*groups.values()], first["pg_desc"]),
    )
    return tuple(line(text, NAME) for text in told)
