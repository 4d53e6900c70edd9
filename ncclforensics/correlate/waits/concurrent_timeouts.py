"""Ranks that are held in several calls at once: which of them hold them up.

Log lines tell of calls of several groups that a rank gave up, and not their order; the
messages of a batch are in flight together, and end together. A call that all members
came to does not hold such a rank up; another one that lacks a member does, and the
rank's GPU is there. So does a call in which members run different operations. So which
calls a rank is behind in follows from the calls that cannot end.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.traces.code_places import kind
from ncclforensics.correlate.waits import wait_graph


def settled(
    calls: pl.DataFrame, held: pl.DataFrame, messages: pl.DataFrame
) -> pl.DataFrame:
    """Return `calls` with ranks `behind` if another call is known to hold them.

    `held` shows which ranks are held in several calls alike, `messages` those that
    timed out in messages as well. A call that is left without waiting ranks is dropped.
    """
    if calls.is_empty():
        return calls
    first = held.filter(pl.col("choice") == 0)["rank"]
    both = pl.concat([first, messages["rank"].unique().drop_nulls()])
    several = {*both.filter(both.is_duplicated())}
    graph = wait_graph.graph(calls)
    behind = _behind(graph, several, _differing(calls, held)) if several else {}
    if not behind:
        return calls
    moved = pl.DataFrame(
        {"call": list(behind), "_": [sorted(ranks) for ranks in behind.values()]},
        {"call": pl.Int64(), "_": pl.List(pl.Int64())},
    )
    still = pl.col("waiting").list.set_difference("_").list.sort()
    return (
        calls.join(moved, on="call", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce(still, "waiting").alias("waiting"),
            # ranks are only moved in calls that all came to, where none was behind
            # before
            pl.coalesce("_", "behind").alias("behind"),
        )
        .filter(pl.col("waiting").list.len() > 0)
        .drop("_")
        .with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("call"))
    )


def _differing(calls: pl.DataFrame, held: pl.DataFrame) -> set[int]:
    """Return the collectives to which members came with different operations."""
    key = ["group", "seq"]
    made = held.filter(~pl.col("is_p2p").fill_null(False)).drop_nulls([*key, "op"])
    kinds = made.group_by(key).agg(kind(pl.col("op")))
    torn = kinds.filter(pl.col("op").list.drop_nulls().list.n_unique() > 1)
    collectives = calls.filter(~pl.col("is_p2p").fill_null(False))
    return {*collectives.join(torn.select(key), on=key, how="semi")["call"]}


def _behind(
    told: wait_graph.Graph, several: set[int], differing: set[int]
) -> dict[int, set[int]]:
    """Return by call the ranks of `several` that a call holds which cannot end."""
    full = {call for call, lacking in told.why.items() if not lacking} - differing
    # a message that its other side has finished was delivered, and waits for its batch
    full -= told.done & told.collective
    found: dict[int, set[int]] = {}
    wave = told.why.keys() - full
    while wave:
        moved: dict[int, set[int]] = {}
        for call in wave:
            here = several.intersection(told.waiters[call]) - found.get(call, set())
            for rank in here:
                for other in full.intersection(told.calls_of[rank]):
                    moved.setdefault(other, set()).add(rank)
        found |= moved
        full -= moved.keys()
        wave = {*moved}
    return found
