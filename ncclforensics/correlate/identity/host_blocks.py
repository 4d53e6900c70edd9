"""Which ranks a host holds that no line tells, where all others hold equal blocks.

Launchers number ranks host by host, so where each known host holds one block of
consecutive ranks of one size, the ranks that are left over are such blocks as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.model.frames import Frames

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


def ranks_on(frames: Frames, host: str) -> tuple[int, ...]:
    """Return the only block of ranks that no other host holds, for a host without any.

    Empty if the host has ranks, or if several blocks are left over.
    """
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    if host in placed["host"]:
        return ()
    hosts = [frozenset(some) for some in placed.group_by("host").agg("rank")["rank"]]
    lost = world.ranks(frames) - {*placed["rank"]}
    blocks = left_over(hosts, lost)
    return tuple(sorted(lost)) if blocks == [lost] else ()


def home(frames: Frames, ranks: Collection[int]) -> tuple[str, ...]:
    """Return the only host without a rank, if `ranks` are the block left for it.

    Such a host is known by its files, or by what others say of it.
    """
    told = pl.concat([frames["sources"]["host"], frames["events"]["host"]])
    bare = {*told.drop_nulls()} - {*frames["ranks"]["host"].drop_nulls()}
    fits = len(bare) == 1 and {*ranks_on(frames, *bare)} == {*ranks}
    return tuple(bare) if ranks and fits else ()


def many(frames: Frames, ranks: Collection[int]) -> int:
    """Return how many hosts hold all of `ranks` in equal blocks; 0 if none do so."""
    placed = frames["ranks"].drop_nulls(["host", "rank"])
    placed = placed.filter(pl.col("rank").is_in(list(ranks)))
    hosts = [frozenset(some) for some in placed.group_by("host").agg("rank")["rank"]]
    whole = placed["rank"].n_unique() == len(ranks)
    return len(hosts) if whole and _size({*hosts}) else 0


def _size(hosts: Collection[frozenset[int]]) -> int:
    """Return the size of the equal blocks that all `hosts` hold; 0 if they do not."""
    size = len(next(iter(hosts), ()))
    return size if hosts == {_block(min(host), size) for host in hosts} else 0


def _block(rank: int, size: int) -> frozenset[int]:
    first = rank - rank % size
    return frozenset(range(first, first + size))
