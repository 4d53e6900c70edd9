"""Calls that peers have made behind the one that holds them, and a rank never did.

It waits in no call and nobody has come as far as to wait for it yet: where all others
hang on somebody else, such a rank is absent as well.
"""

from __future__ import annotations

import polars as pl

from ncclforensics import tables
from ncclforensics.correlate.standings import KEY


def unreached(
    stuck: pl.DataFrame,
    open_calls: pl.DataFrame,
    members: pl.DataFrame,
    standings: pl.DataFrame,
    evidence: pl.DataFrame,
) -> pl.DataFrame:
    """Return calls that peers made behind the one that holds them, and a rank did not.

    Nothing holds that rank: it waits in no call, nobody has yet come as far as to wait
    for it, and all others hang. The frame is that of `calls`, numbered on from `stuck`.
    """
    busy = pl.concat([open_calls["rank"], stuck["waiting"].explode()]).drop_nulls()
    wanted = pl.concat([stuck["absent"].explode(), stuck["unseen"].explode()])
    idle = evidence.filter(
        ~pl.col("is_stale")
        & ~pl.col("rank").is_in(pl.concat([busy, wanted]).implode())
        & pl.col("rank").is_in(standings["rank"].implode())
    ).select("rank")
    if idle.is_empty() or stuck.is_empty():
        return stuck.clear()
    made = open_calls.filter(~pl.col("is_p2p").fill_null(False)).drop_nulls("seq")
    behind = (
        idle.join(members.explode("members"), left_on="rank", right_on="members")
        .join(standings.select(*KEY, "enqueued"), on=KEY)
        .join(made.drop("rank"), on="group")
        .filter(pl.col("seq") > pl.col("enqueued"))
        .sort("rank", "seq", "group")
        .unique("rank", keep="first", maintain_order=True)
    )
    if behind.is_empty():
        return stuck.clear()
    here = behind.group_by("group", "seq", maintain_order=True).agg(
        pl.col("rank").alias("absent"),
        *(
            pl.col(c).first()
            for c in ("pg", "pg_desc", "op", "stack", "source", "line")
        ),
        pl.col("t").min(),
    )
    came = made.join(here.select("group", "seq"), on=["group", "seq"]).group_by(
        "group", "seq"
    )
    told = here.join(
        came.agg(pl.col("rank").unique().sort().alias("behind")), on=["group", "seq"]
    )
    none = pl.lit([], pl.List(pl.Int64()))
    number = pl.int_range(pl.len()) + stuck["call"].max() + 1
    return tables.conform(
        "calls",
        told.join(members, on="group", how="left", maintain_order="left").with_columns(
            number.alias("call"),
            pl.lit(False).alias("is_p2p"),
            *(none.alias(c) for c in ("waiting", "done", "unseen", "unstarted")),
        ),
    )
