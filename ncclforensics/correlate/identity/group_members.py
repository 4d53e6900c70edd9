"""Members of groups that no line lists, derived from each rank's number in its group.

A watchdog line holds both the global rank and the group rank. Launchers build all
groups of one description alike: same size, same stride between consecutive group ranks.
So two members of a group, or one member and the stride of its sister groups, give all
the others.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces.progress import UNLISTED, grouped

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MOST = 1 << 16  # rows examined at most

Seats = dict[int, int]  # group rank -> global rank


def seated(frames: Frames, names: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Return `members` (`group members`) with the derived members of unlisted groups.

    `names` maps each `rank pg pg_desc pg_id` to its `group`. For a group that no line
    lists, `members` holds only the ranks seen in it. That stays so if the ranks of the
    groups with its description do not fit one stride.
    """
    told = (
        grouped(frames["positions"].drop_nulls("pg_desc"), names)
        .drop_nulls(["group", "rank", "group_rank"])
        .filter(pl.col("group").str.ends_with(UNLISTED))
        .unique(["group", "rank", "group_rank"], maintain_order=True)
        .head(MOST)
    )
    if told.is_empty():
        return members
    everyone = world.ranks(frames)
    found: dict[str, list[int]] = {}
    for _, sisters in told.group_by("pg_desc", maintain_order=True):
        found |= _of_sisters(sisters, everyone)
    if not found:
        return members
    known = pl.DataFrame(
        {"group": list(found), "_": list(found.values())},
        {"group": pl.String(), "_": pl.List(pl.Int64())},
    )
    # an unlisted group that is known only by a number has no row in `members`
    joined = members.join(
        known, on="group", how="full", coalesce=True, maintain_order="left_right"
    )
    strange = pl.col("members").list.set_difference("_").list.len() > 0
    whole = pl.when(~strange.fill_null(False)).then("_")
    return joined.with_columns(pl.coalesce(whole, "members").alias("members")).drop("_")


def _of_sisters(told: pl.DataFrame, everyone: frozenset[int]) -> dict[str, list[int]]:
    """Return group -> members for groups of one description; {} if they conflict."""
    groups: dict[str, Seats] = {}
    for group, seat, rank in told.select("group", "group_rank", "rank").iter_rows():
        if groups.setdefault(group, {}).setdefault(seat, rank) != rank:
            return {}
    steps = {step for seats in groups.values() for step in _steps(seats)}
    size = 1 + max(seat for seats in groups.values() for seat in seats)
    if len(steps) != 1 or size < 2 or (step := steps.pop()) < 1 or step != int(step):
        return {}
    found = {}
    for group, seats in groups.items():
        seat, rank = next(iter(seats.items()))
        first = rank - seat * int(step)
        found[group] = [first + n * int(step) for n in range(size)]
    taken = [rank for some in found.values() for rank in some]
    fits = len(taken) == len({*taken}) and {*taken} <= everyone
    return found if fits else {}


def _steps(seats: Seats) -> set[float]:
    """Return the strides in global rank between neighbouring known group ranks."""
    return {(seats[b] - seats[a]) / (b - a) for a, b in pairwise(sorted(seats))}
