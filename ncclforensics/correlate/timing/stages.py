"""Which ranks do the same work: those at one stage of their pipelines.

Ranks that send each other messages, directly or through others, are the stages of one
pipeline, and their places in it follow their numbers. Stages wait for each other by
design, so a rank is compared with those of its own stage only.
"""

from __future__ import annotations

import polars as pl


def stages(calls: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Return `rank stage`, stages from 0; all are 0 in a job without messages.

    `calls` has `rank pg pg_desc is_p2p src dst`, where `src` and `dst` are places in
    the group; `groups` lists the `members` of each `rank pg pg_desc`.
    """
    ranks = calls["rank"].unique().sort()
    head = {rank: rank for rank in ranks}
    own = ["rank", "pg", "pg_desc"]
    seats = groups.lazy().unique(own).select(*own, "members")
    pairs = (
        calls.lazy()
        .filter(pl.col("is_p2p"))
        .select(*own, "src", "dst")
        .unique()
        .join(seats, on=own, how="left", nulls_equal=True)
        .select(member_at(side).alias(side) for side in ("src", "dst"))
        .drop_nulls()
        .unique()
        .sort("src", "dst")
        .collect()
    )

    def first(rank: int) -> int:
        while head.setdefault(rank, rank) != rank:
            rank = head[rank]
        return rank

    for src, dst in pairs.iter_rows():  # a few pairs, not their messages
        low, high = sorted((first(src), first(dst)))
        head[high] = low
    pipe = [first(rank) for rank in ranks]
    return pl.DataFrame({"rank": ranks, "pipe": pipe}).select(
        "rank", (pl.col("rank").rank("ordinal").over("pipe") - 1).alias("stage")
    )


def member_at(side: str) -> pl.Expr:
    """Return the rank at a place; Gloo lists no members, and mostly all are."""
    seat = pl.col("members").list.get(pl.col(side), null_on_oob=True)
    listed = pl.col("members").list.len() > 0
    return pl.when(listed.fill_null(False)).then(seat).otherwise(side)
