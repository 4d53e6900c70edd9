"""Ranks that work longer because they are given more: the experts of a router.

What a rank receives in `all_to_all` it has to compute on. Who receives half as much
again as its peers may work up to half as long again, and no part of its host is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.theory.call_signatures import numels

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.model.frames import Frames

ROUTED = r"(?i)all_?to_?all"
LEAST = 4  # calls of a rank


@remembered
def received(frames: Frames) -> pl.DataFrame:
    """Return `rank more`: how much more it receives than the median rank, as a share.

    On average over its routed calls, all sizes of one type; no rows without several
    ranks that have some. Float64.
    """
    calls = frames["collectives"].filter(pl.col("op").str.contains(ROUTED))
    each = (
        calls.with_columns(size=numels("out").list.sum())
        .group_by("rank")
        .agg(pl.col("size").mean(), pl.len().alias("n"))
        .filter((pl.col("n") >= LEAST) & (pl.col("size") > 0))
    )
    usual = pl.col("size").median()
    return each.select("rank", more=pl.col("size") / usual - 1).sort("rank")


def explains(frames: Frames, ranks: Collection[int], share: float) -> bool:
    """Whether `ranks` receive more by the `share` of time that they work longer."""
    more = received(frames).filter(pl.col("rank").is_in([*ranks]))["more"]
    return more.len() == len(ranks) and bool((more >= share).all())
