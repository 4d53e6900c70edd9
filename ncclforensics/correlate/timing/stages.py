"""Which ranks do the same work: those at one stage of their pipelines.

Ranks that send each other messages, directly or through others, are the stages of one
pipeline, and their places in it follow their numbers. Where no messages are recorded,
ranks that share no collective but those of all ranks may be stages of pipelines. Stages
wait for each other by design, so a rank is compared with those of its own stage only.
"""

from __future__ import annotations

import polars as pl


def stages(
    calls: pl.DataFrame, groups: pl.DataFrame, *, shows_messages: bool = False
) -> pl.DataFrame:
    """Return `rank stage`, stages from 0; all are 0 in a job without smaller groups.

    `calls` has `rank group pg pg_desc is_p2p src dst`, where `src` and `dst` are places
    in the group; `groups` lists the `members` of each `rank pg pg_desc`.
    `shows_messages`: if any had been sent, the calls would have them.
    """
    pairs = _messages(calls, groups)
    if pairs.is_empty() and shows_messages:
        return calls.select("rank").unique().sort("rank").with_columns(stage=pl.lit(0))
    if pairs.is_empty():
        return _joined(calls["rank"].unique().sort(), _meetings(calls)).select(
            "rank", (pl.col("head").rank("dense") - 1).alias("stage")
        )
    pipes = _joined(calls["rank"].unique().sort(), pairs)
    place = pl.col("rank").rank("ordinal").over("head") - 1
    return pipes.select("rank", place.alias("stage"))


def _messages(calls: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Return `src dst`, the ranks that send each other messages."""
    own = ["rank", "pg", "pg_desc"]
    seats = groups.lazy().unique(own).select(*own, "members")
    return (
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


def _meetings(calls: pl.DataFrame) -> pl.DataFrame:
    """Return `src dst`, ranks that share a collective which not all ranks make."""
    some = calls.select("group", "rank").drop_nulls().unique()
    many = pl.len().over("group")
    smaller = some.filter((many > 1) & (many < some["rank"].n_unique()))
    pairs = smaller.with_columns(pl.col("rank").min().over("group").alias("src"))
    # who is in no smaller group does what the others do that are in none
    alone = calls.select("rank").unique().join(smaller, on="rank", how="anti")
    pairs = pl.concat(
        [
            pairs.select("src", pl.col("rank").alias("dst")),
            alone.select(
                pl.col("rank").min().alias("src"), pl.col("rank").alias("dst")
            ),
        ]
    )
    return pairs.unique().sort("src", "dst")


def _joined(ranks: pl.Series, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return `rank head`: the first of the ranks that `pairs` link, over others too."""
    head = {rank: rank for rank in ranks}

    def first(rank: int) -> int:
        while head.setdefault(rank, rank) != rank:
            rank = head[rank]
        return rank

    for src, dst in pairs.iter_rows():  # a few pairs, not their messages
        low, high = sorted((first(src), first(dst)))
        head[high] = low
    return pl.DataFrame({"rank": ranks, "head": [first(rank) for rank in ranks]})


def member_at(side: str) -> pl.Expr:
    """Return the rank at a place; Gloo lists no members, and mostly all are."""
    seat = pl.col("members").list.get(pl.col(side), null_on_oob=True)
    listed = pl.col("members").list.len() > 0
    return pl.when(listed.fill_null(False)).then(seat).otherwise(side)
