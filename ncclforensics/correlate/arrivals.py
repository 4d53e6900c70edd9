"""How much of its time a group waits for its last members, as its earlier calls tell.

Ranks come to a call one after the other, and dumps of a job that runs may be taken in
between. That is likely where the last ones are long in coming at every call; where they
never were, dumps that show it are of a job that stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection

SELDOM = 1 / 20  # of the time
ENOUGH = 3  # earlier calls, for it to be known


def is_seldom(
    call: dict[str, Any],
    last: Collection[int],
    collectives: pl.LazyFrame,
    time: str = "t",
) -> bool:
    """Whether as many members as `last` have seldom come after all others.

    `call` is a row of `calls`, and `time` a column of `collectives`: when a rank made a
    call, or when its GPU began it. By how much clocks differ, or one rank is always
    later than another, is left out of account.
    """
    members = {*call["waiting"], *call["behind"], *call["absent"]}
    early = len(members) - len(last)
    if early < 1 or not last:
        return False
    came = (
        collectives.filter(
            ~pl.col("is_p2p").fill_null(False)
            & pl.col("pg").eq_missing(pl.lit(call["pg"], pl.String))
            & pl.col("pg_desc").eq_missing(pl.lit(call["pg_desc"], pl.String))
            & (pl.col("seq") < call["seq"])
            & pl.col("rank").is_in(sorted(members))
            & pl.col(time).is_not_null()
        )
        .select("rank", "seq", pl.col(time).dt.epoch("ns").alias("at"))
        .collect()
        .filter(pl.col("rank").n_unique().over("seq") == len(members))
        .with_columns(pl.col("at").median().over("seq").alias("usual"))
        .with_columns((pl.col("at") - pl.col("usual")).alias("late"))
        .with_columns(pl.col("late") - pl.col("late").median().over("rank"))
    )
    if came["seq"].n_unique() < ENOUGH:
        return False
    order = pl.col("late").sort()
    waits = came.group_by("seq").agg(order.get(early) - order.get(early - 1))["late"]
    span = came.select(pl.col("usual").max() - pl.col("usual").min()).item()
    return bool(waits.sum() < SELDOM * span)
