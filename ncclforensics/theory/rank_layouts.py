"""Slow ranks that are slow because of how the job is laid out: they have work to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.step_parts import OTHER, REDUCE, UNSAID

if TYPE_CHECKING:
    from ncclforensics.correlate.timing.own_time import OwnTime
    from ncclforensics.theory.slow_ranks import Slow

DOES = 0.001  # share of a step that a rank spends at a part of it that it does at all


def is_role(told: OwnTime, found: Slow) -> bool:
    """Whether ranks that a log shows as slow may do what the others do not.

    No log tells the roles of ranks. One rank may be slow, or all of a host; some ranks
    of several hosts read for the others. Peers spend time at the same part as well.
    Halves, or the first and the last rank, that compute longer may be stages; but not
    where each wait is a named collective, as stages wait for messages.
    """
    calls, mine = told.calls, pl.col("rank").is_in(found.ranks)
    # those of one stage are compared where the log tells the stages
    has_stages = told.waits != {REDUCE} and calls["same"].null_count() > 0
    clocks = calls.select("rank", "clock").unique()
    own = clocks.filter(mine)
    whole = clocks.filter(pl.col("clock").is_in(own["clock"].implode())).height
    reads = found.is_data or has_stages
    if reads and own.height > 1 and (own["clock"].n_unique() > 1 or whole > own.height):
        return True
    if float(str(found.worst["typical"])) < DOES:
        return True
    # half of the ranks may wait where a name does not tell what they do
    if 2 * own.height >= clocks.height and found.worst["kind"] in (UNSAID, OTHER):
        return True
    if found.is_data or not has_stages:
        return False
    ends = {clocks["rank"].min(), clocks["rank"].max()}
    return 2 * own.height >= clocks.height or not ends.isdisjoint(found.ranks)


def is_whole_host(told: OwnTime, found: Slow) -> bool:
    """Whether ranks are all of one host that has several, beside other hosts."""
    clocks = told.calls.select("rank", "clock").unique()
    mine = pl.col("rank").is_in(found.ranks)
    own = clocks.filter(mine)["clock"].unique()
    there = clocks.filter(pl.col("clock").is_in(own.implode())).height
    return own.len() == 1 and there == len(found.ranks) > 1 and there < clocks.height


def are_everywhere(ranks: pl.DataFrame, mine: pl.Series) -> bool:
    """Whether as many ranks of each host are slow, but not all: they have a role."""
    slow = pl.col("rank").is_in(mine.implode())
    hosts = ranks.unique("rank").group_by("clock").agg(slow.sum().alias("many"))
    rest = ranks["rank"].n_unique() - mine.len()
    return hosts.height > 1 and hosts["many"].n_unique() == 1 and rest > 0
