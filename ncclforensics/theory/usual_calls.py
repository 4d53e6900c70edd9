"""What is usual of a call: for its rank, for its role, and at the step that led to it.

The surprise of a call, in bits, is held against these, so that only what sets a rank
apart from its peers is left.
"""

from __future__ import annotations

import polars as pl

MADE = ("rank", "label")


def last_met() -> pl.Expr:
    """Return the place of each rank's last collective that is over; -1 without one.

    A message that was left out behind it moves all that follow, and shows at the next.
    """
    met = pl.col("over") & ~pl.col("is_p2p") & ~pl.col("op").str.ends_with("coalesced")
    return pl.col("place").filter(met).max().over("rank").fill_null(-1)


def of_any() -> pl.Expr:
    """Return the least surprise of any rank of the role that took the same step.

    A step is a collective made right behind another one, by group and number. Where a
    peer took it as well, it does not set a rank apart: its ring kept another history.
    """
    number = pl.when(~pl.col("is_p2p")).then("seq")
    meeting = [pl.col("group"), number]
    behind = [column.shift(1).over("rank") for column in meeting]
    step = [pl.col("role"), pl.col("label"), *meeting, *behind]
    is_known = pl.all_horizontal(s.is_not_null() for s in step)
    least = pl.col("bits").min().over(step)
    return pl.when(is_known).then(least).otherwise("bits")


def each_time() -> pl.Expr:
    """Return the usual surprise of a rank's calls with the label of a call.

    A call that its rank makes seldom surprises each time, which is told of calls that
    it made lately. What happened to a call that is open may have happened to others
    that are: they say nothing of it.
    """
    ended = pl.col("bits").filter("over").median().over(MADE)
    alone = pl.len().over(MADE) == 1
    every = pl.when(~alone).then(pl.col("each"))
    return pl.when("over").then(every).otherwise(ended).fill_null(0.0)


def with_usual(last: pl.DataFrame) -> pl.DataFrame:
    """Return calls with their `usual` surprise, and by how much theirs is `above` it.

    It is the median of what a call costs the ranks of a role, nothing where they do not
    make it; or of what all ranks find most surprising, for roles of 1 or 2.
    """
    each = last.group_by("role", "label", "rank").agg(pl.col("bits").max())
    ranks = last.select("role", "rank").unique()
    calls = each.filter(pl.col("bits") > 0.0).select("role", "label").unique()
    every = calls.join(ranks, on="role").join(
        each, how="left", on=[*calls.columns, "rank"]
    )
    usual = every.group_by("role", "label").agg(
        pl.col("bits").fill_null(0.0).median().alias("usual")
    )
    alone = pl.col("rank").n_unique().over("role") <= 2
    of_all = last.group_by("rank").agg(pl.col("bits").max())["bits"].median()
    told = last.join(usual, on=["role", "label"], how="left", maintain_order="left")
    usual_ = pl.when(alone).then(pl.lit(of_all)).otherwise("usual").fill_null(0.0)
    return told.with_columns(usual_.alias("usual")).with_columns(
        (pl.col("bits") - pl.col("usual")).clip(0).alias("above")
    )
