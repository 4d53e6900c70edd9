"""Members of groups that no line lists, derived from each rank's number in its group.

A watchdog line holds both the global rank and the group rank, and torch sorts the ranks
of a group. Launchers build all groups of one description alike: same size, and same
distances between the members. So a few members of a group, or one and those of its
sister groups, give all the others. A gather's sizes tell how many there are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces.progress import UNLISTED

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MOST = 1 << 16  # rows examined at most

Seats = dict[int, int]  # group rank -> global rank


def seated(
    frames: Frames, positions: pl.DataFrame, members: pl.DataFrame
) -> pl.DataFrame:
    """Return `members` (`group members`) with the derived members of unlisted groups.

    `positions` have the `group` of each row that tells one. For a group that no line
    lists, `members` holds only the ranks seen in it. That stays so if the ranks of the
    groups with its description do not fit one stride.
    """
    if positions.is_empty():
        return members
    told = (
        positions.drop_nulls(["group", "rank", "group_rank"])
        .filter(_is_named() & pl.col("group").str.ends_with(UNLISTED))
        .with_columns(world.gathered().max().over("group").alias("size"))
        .unique(["group", "rank", "group_rank"], maintain_order=True)
        .head(MOST)
    )
    if told.is_empty():
        return members
    everyone = world.ranks(frames)
    found: dict[str, list[int]] = {}
    # a group without a description has no known sisters
    kind = pl.coalesce("pg_desc", "group")
    for _, sisters in told.group_by(kind, maintain_order=True):
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


def _is_named() -> pl.Expr:
    """Whether a line tells a group; a line that tells none may be of any."""
    return pl.any_horizontal(pl.col("pg", "pg_id", "pg_desc").is_not_null())


def has_room(seats: Seats, rank: int) -> bool:
    """Whether a group with these members can have a rank that is not among them."""
    below = [(of, seat) for seat, of in seats.items() if of < rank]
    above = [(of, seat) for seat, of in seats.items() if of > rank]
    return not above or min(above)[1] - max(below, default=(-1, -1))[1] > 1


def _of_sisters(told: pl.DataFrame, everyone: frozenset[int]) -> dict[str, list[int]]:
    """Return group -> members for groups of one description; {} if they conflict."""
    groups: dict[str, Seats] = {}
    for group, seat, rank in told.select("group", "group_rank", "rank").iter_rows():
        if groups.setdefault(group, {}).setdefault(seat, rank) != rank:
            return {}
    last = max(seat for seats in groups.values() for seat in seats)
    size = max(1 + last, *told["size"].fill_null(0))
    if size < 2:
        return {}
    layouts = [layout] if (layout := _layout(groups, size)) else _strides(groups, size)
    fitting = [f for f in (_laid(groups, lay) for lay in layouts) if _fits(f, everyone)]
    return fitting[0] if len(fitting) == 1 else {}


def _layout(groups: dict[str, Seats], size: int) -> list[int] | None:
    """Return the distance of each seat from the first of its group; None if unknown.

    Groups that share a seat are laid over each other. Between two seats whose ranks
    are as far apart as they are, and below one whose rank is its number, the ranks have
    no gap. Other seats follow from the stride, if there is one.
    """
    most = max(groups.values(), key=len)
    at = dict(most)  # seat -> rank, as if all were of the group `most`
    moved = True
    while moved:
        moved = False
        for seats in groups.values():
            shift = {at[seat] - rank for seat, rank in seats.items() if seat in at}
            if len(shift) > 1:
                return None
            if shift and (new := seats.keys() - at.keys()):
                at |= {seat: seats[seat] + min(shift) for seat in new}
                moved = True
    known = sorted(at)
    if any(at[b] - at[a] < b - a for a, b in pairwise(known)):
        return None
    steps = _steps(at)
    if len(steps) == 1 and (step := steps.pop()) == int(step):
        return [int(step) * seat for seat in range(size)]
    whole = [s for seats in groups.values() for s, r in seats.items() if s == r]
    if whole and (last := max(whole)) in at:
        at |= {seat: at[last] - (last - seat) for seat in range(last)}
    for a, b in pairwise(known):
        if at[b] - at[a] == b - a:
            at |= {seat: at[a] + seat - a for seat in range(a, b)}
    return [at[n] - at[0] for n in range(size)] if len(at) == size else None


def _strides(groups: dict[str, Seats], size: int) -> list[list[int]]:
    """Return the layouts of one stride, if each group shows only one of its ranks."""
    if any(len(seats) > 1 for seats in groups.values()):
        return []
    most = max(rank for seats in groups.values() for rank in seats.values())
    return [[step * seat for seat in range(size)] for step in range(1, most + 1)]


def _laid(groups: dict[str, Seats], layout: list[int]) -> dict[str, list[int]]:
    found = {}
    for group, seats in groups.items():
        seat, rank = next(iter(seats.items()))
        found[group] = [rank - layout[seat] + away for away in layout]
    return found


def _fits(found: dict[str, list[int]], everyone: frozenset[int]) -> bool:
    """Whether no rank is in two of the groups, and the job has all of them."""
    taken = [rank for some in found.values() for rank in some]
    return len(taken) == len({*taken}) and {*taken} <= everyone


def _steps(seats: Seats) -> set[float]:
    """Return the strides in global rank between neighbouring known group ranks."""
    return {(seats[b] - seats[a]) / (b - a) for a, b in pairwise(sorted(seats))}
