"""Ranks whose own log was not collected: their silence proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames


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
    """Return the ranks that would have written to a file with others' `words`.

    All ranks of a node write to what torchrun was started on, where nothing else is
    asked, and all tasks of a job to what srun was. So those of which nothing stands
    there printed nothing. A node's ranks are those of its agent, if that tells them,
    and those between the ranks whose words are there.
    """
    spoke = words.drop_nulls("rank").group_by("source").agg(pl.col("rank").unique())
    agents = frames["exits"].filter(pl.col("source").is_in(spoke["source"].implode()))
    found = {*agents["rank"].drop_nulls()}
    for crew in agent_processes.crews(frames):
        found |= crew.ranks if crew.source in spoke["source"] else set()
    for ranks in spoke["rank"]:
        found |= {*range(ranks.min(), ranks.max() + 1)}
    return sorted(found)
