"""Whose own words were not collected: of such a rank silence proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.frames import Frames


def unheard(frames: Frames) -> list[int]:
    """Return the ranks without a stderr file of their own where others have theirs."""
    own = frames["sources"].filter(pl.col("stream") == "stderr")
    local = own["local_rank"].drop_nulls().implode()
    ranks = own["rank"].drop_nulls().implode()
    if own.is_empty():
        return []
    heard = pl.col("local_rank").is_in(local) | pl.col("rank").is_in(ranks)
    # without a local rank nobody can say which file would be its own
    return sorted(frames["ranks"].filter(~heard)["rank"].drop_nulls())
