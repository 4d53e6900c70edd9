"""Which ranks a host holds that no line tells, where all others hold equal blocks.

Launchers number ranks host by host, so where each known host holds one block of
consecutive ranks of one size, the ranks that are left over are such blocks as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.model.frames import Frames

NUMBER = r"(\d{1,9})\D*$"  # the last one of a host's name
AGREE = 3  # hosts whose numbers and blocks go together
LARGEST = 8  # GPUs, of most hosts
SMALLEST = 2  # ranks of a host from which a block tells anything


def left_over(
    hosts: Collection[frozenset[int]], lost: Collection[int]
) -> list[frozenset[int]]:
    """Return the blocks that `lost` ranks make up, if all `hosts` hold equal ones."""
    known = {host for host in hosts if host}
    size = _size(known)
    if size < SMALLEST:
        return []
    firsts = [rank for rank in lost if rank % size == 0]
    return [some for rank in firsts if (some := _block(rank, size)) <= {*lost}]


def filled_up(
    hosts: Collection[frozenset[int]], lost: Collection[int]
) -> list[frozenset[int]]:
    """Return the blocks of hosts known in part, if the largest hosts are equal blocks.

    The rest of such a block is among `lost`.
    """
    most = max((len(host) for host in hosts), default=0)
    size = _size({host for host in hosts if len(host) == most})
    parts = [host for host in hosts if len(host) < size]
    blocks = ((part, _block(min(part), size)) for part in parts)
    return [block for part, block in blocks if part <= block <= part | {*lost}]


def ranks_on(frames: Frames, host: str) -> tuple[int, ...]:
    """Return the block of ranks that a host must hold if all others hold equal ones.

    It is the one of its known ranks, or the only one that is left over for a host
    without any. Empty if nothing tells, or if the host's ranks are no part of a block.
    If all hosts are known in part, it is a block of the one size that fits them all.
    """
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    own = {*placed.filter(pl.col("host") == host)["rank"]}
    others = placed.filter(pl.col("host") != host)
    lost = world.ranks(frames) - {*others["rank"]}
    blocks = left_over(by_host(others), lost)
    mine = [b for b in blocks if own <= b] if own else blocks
    if len(mine) > 1 and (first := _by_number(others, host)) is not None:
        numbered = next((b for b in mine if min(b) == first), frozenset())
        return tuple(sorted(numbered))
    if own and not mine and (size := _fitting(frames)):
        mine = [_block(min(own), size)]
    fits = len(mine) == 1 and (own or mine == [lost])
    return tuple(sorted(mine[0])) if fits else ()


def around(frames: Frames, ranks: Collection[int]) -> tuple[str, ...]:
    """Return the host in whose block all `ranks` lie, if hosts are known in part."""
    size = _fitting(frames) if ranks else 0
    if not size or len({rank // size for rank in ranks}) > 1:
        return ()
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    beside = placed.filter(pl.col("rank") // size == min(ranks) // size)
    return tuple(beside["host"].unique().sort())


def fitted(frames: Frames) -> list[frozenset[int]]:
    """Return the blocks of all hosts, if one size fits those known in part; else []."""
    size, many = _fitting(frames), _size_of_job(frames)
    return [_block(first, size) for first in range(0, many, size)] if size else []


def _size_of_job(frames: Frames) -> int:
    """Return the size that lines state or imply, or the ranks that groups list."""
    listed = frames["groups"]["members"].count() > 0
    return max(world.told_size(frames), len(world.ranks(frames)) if listed else 0)


@remembered
def _fitting(frames: Frames) -> int:
    """Return the one size of equal blocks that fits hosts known in part; 0 if none.

    It divides the number of ranks, and keeps each host in one block, and two hosts in
    two. Where only one rank of each is known, one may be all that a host holds.
    """
    hosts = by_host(frames["ranks"].drop_nulls(["host", "rank"]))
    many = _size_of_job(frames)
    fits = [
        size
        for size in range(1, many // max(len(hosts), 1) + 1)
        if not many % size
        and all(min(host) // size == max(host) // size for host in hosts)
        and len({min(host) // size for host in hosts}) == len(hosts)
    ]
    return fits[0] if len(hosts) >= AGREE and len(fits) == 1 else 0


def of_task(frames: Frames, tasks: int) -> int:
    """Return how many ranks each of some tasks holds in order; 0 if that is not told.

    Lines that name both a rank and a task have to agree.
    """
    size, rest = divmod(len(world.ranks(frames)), tasks)
    both = frames["events"].select("rank", "task").drop_nulls().unique()
    agree = both.select((pl.col("rank") // max(size, 1) == pl.col("task")).all()).item()
    return size if both.height and agree and not rest else 0


def whole(frames: Frames, host: str) -> tuple[int, ...]:
    """Return the ranks of a host in order if all hosts hold equal blocks, else ()."""
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    own = frozenset(placed.filter(pl.col("host") == host)["rank"])
    size = _size({*by_host(placed)})
    return tuple(sorted(own)) if own and len(own) == size else ()


def _by_number(placed: pl.DataFrame, host: str) -> int | None:
    """Return the first rank of a host by the number in its name; None if unknown.

    Known if the blocks of hosts with such names follow each other as their numbers do.
    """
    shape = pl.col("host").str.replace(NUMBER, "\n")
    number = pl.col("host").str.extract(NUMBER).cast(pl.Int64)
    hosts = placed.group_by("host").agg(pl.col("rank").min(), size=pl.len())
    told = pl.DataFrame({"host": [host]}).select(shape=shape, number=number)
    like = hosts.select("rank", "size", shape=shape, number=number)
    like = like.filter(pl.col("shape") == told["shape"][0]).drop_nulls()
    if like.height < AGREE:
        return None
    size = int(like["size"][0])
    bases = (like["rank"] - like["number"] * size).unique()
    return int(bases[0] + told["number"][0] * size) if bases.len() == 1 else None


def home(frames: Frames, ranks: Collection[int]) -> tuple[str, ...]:
    """Return the only host without a rank, if `ranks` are the block left for it."""
    bare = _without_ranks(frames)
    fits = len(bare) == 1 and {*ranks_on(frames, *bare)} == {*ranks}
    return bare if ranks and fits else ()


@remembered
def _without_ranks(frames: Frames) -> tuple[str, ...]:
    """Return the hosts that are known by their files or lines, and by no rank."""
    told = [frames[name]["host"].unique() for name in ("sources", "events")]
    hosts = {*pl.concat(told).drop_nulls()} - {*frames["ranks"]["host"].drop_nulls()}
    return tuple(sorted(hosts))


def many(frames: Frames, ranks: Collection[int]) -> int:
    """Return how many hosts hold all of `ranks` in equal blocks; 0 if none do so.

    Where no host is known, ranks that follow each other from 0 on fill hosts of the
    largest usual size.
    """
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    placed = placed.filter(pl.col("rank").is_in(list(ranks)))
    if placed.is_empty() and {*ranks} == {*range(len(ranks))}:
        return 0 if len(ranks) % LARGEST else len(ranks) // LARGEST
    hosts = by_host(placed)
    whole = placed["rank"].n_unique() == len(ranks)
    return len(hosts) if whole and _size({*hosts}) else 0


def by_host(placed: pl.DataFrame) -> list[frozenset[int]]:
    """Return the ranks of each host; `placed` has `rank` and `host`, without nulls."""
    return [frozenset(some) for some in placed.group_by("host").agg("rank")["rank"]]


def _size(hosts: Collection[frozenset[int]]) -> int:
    """Return the size of the equal blocks that all `hosts` hold; 0 if they do not."""
    size = len(next(iter(hosts), ()))
    return size if hosts == {_block(min(host), size) for host in hosts} else 0


def _block(rank: int, size: int) -> frozenset[int]:
    first = rank - rank % size
    return frozenset(range(first, first + size))


def is_one(ranks: Collection[int]) -> bool:
    """Whether ranks may be those of one host: launchers number them host by host.

    They are as many as a power of two, follow each other, and begin at a multiple.
    """
    many = len(ranks)
    is_power = many > 1 and many & (many - 1) == 0
    return is_power and {*ranks} == _block(min(ranks), many)
