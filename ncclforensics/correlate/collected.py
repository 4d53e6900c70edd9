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


def beside_others(frames: Frames, words: pl.DataFrame) -> list[int]:
    """Return the ranks of an agent in whose own file `words` of others stand.

    All ranks write to what torchrun was started on, where nothing else is asked. So
    those of which nothing stands there printed nothing.
    """
    shared = words.drop_nulls("rank")["source"].unique()
    agents = frames["exits"].filter(pl.col("source").is_in(shared.implode()))
    return sorted(agents["rank"].drop_nulls().unique())
