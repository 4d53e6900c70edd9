"""Ranks whose own log was not collected: their silence proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import agent_processes
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

CUT = "c10d.watchdog.timeout.cut"
CAUGHT = ("c10d.watchdog.timeout", CUT)
BEGUN = "collective operation timeout"  # the head of a watchdog's report
STATUS = "c10d.watchdog.status"


def unheard(frames: Frames) -> list[int]:
    """Return the sorted ranks without a stderr file, if others have their own.

    How a process ended may tell as well that it had not given up its call before.
    """
    own = frames["sources"].filter(pl.col("stream") == "stderr")
    if own.is_empty():
        return []
    local = own["local_rank"].drop_nulls().implode()
    named = own["rank"].drop_nulls().implode()
    heard = pl.col("local_rank").is_in(local) | pl.col("rank").is_in(named)
    # a rank without a local rank is left out: its own file cannot be identified
    ranks = {*frames["ranks"].filter(~heard)["rank"].drop_nulls()}
    return sorted(ranks - agent_processes.unmoved(frames))


def beside_others(frames: Frames, words: pl.DataFrame) -> list[int]:
    """Return the sorted ranks whose output would be in a file of others' `words`.

    By default all ranks of a node write to torchrun's output, and all tasks of a job to
    srun's. So a rank with no line in that file printed nothing. The ranks of a file are
    those that its agent reports, if it does, and those between the ranks with lines in
    it. A file that lacks lines which were printed shows nobody's silence.
    """
    if words.is_empty():
        return []
    gaps = pl.concat([_with_gaps(frames), _broken_off(frames)])
    words = words.join(gaps, on="source", how="anti")
    spoke = words.drop_nulls("rank").group_by("source").agg(pl.col("rank").unique())
    agents = frames["exits"].filter(pl.col("source").is_in(spoke["source"].implode()))
    found = {*agents["rank"].drop_nulls()}
    for crew in agent_processes.crews(frames):
        found |= crew.ranks if crew.source in spoke["source"] else set()
    for ranks in spoke["rank"]:
        found |= {*range(ranks.min(), ranks.max() + 1)}
    return sorted(found)


@needing(STATUS, otherwise={"source": pl.String()})
def _with_gaps(frames: Frames) -> pl.DataFrame:
    """Return the `source` of each file from which a line of a rank is gone, as a paste.

    A watchdog prints that a call timed out before it prints how far its rank came. So
    in a file where one rank prints both, a rank with only the second lost the first.
    """
    rank = ["source", "rank"]
    caught = frames.message(*CAUGHT).drop_nulls("rank")
    status = frames.message(STATUS).drop_nulls("rank")
    whole = status.join(caught, on=rank, how="semi").select("source").unique()
    lost = status.join(caught, on=rank, how="anti").select("source")
    return lost.join(whole, on="source", how="semi")


@needing(CUT, otherwise={"source": pl.String()})
def _broken_off(frames: Frames) -> pl.DataFrame:
    """Return the `source` of each file that ends within a watchdog's report.

    All ranks that wait report within the same second or two. Where a text ends in the
    midst of one report, as an excerpt does, those of other ranks may have followed.
    """
    ends = frames["sources"].select("source", pl.col("lines").alias("last"))
    begun = pl.col("text").str.contains(BEGUN, literal=True)
    cut = frames.message(CUT).filter(begun).join(ends, on="source")
    return cut.filter(pl.col("line") >= pl.col("last")).select("source").unique()
