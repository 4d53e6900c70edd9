"""How much longer than its peers each rank is at work, as share of the time.

A role is what ranks of one stage do that make the same calls, a team are those of it
that meet most. Who works longer is compared slice by slice, so that a long step of
everybody tells nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.timing.stages import stages
from ncclforensics.theory import rank_roles

if TYPE_CHECKING:
    from ncclforensics.correlate.timing.own_time import OwnTime

ANGLES = 20_001  # to sum over, which is right to a hundredth of CHANCE
LONG_STEPS = 0.1  # share of the slices that a few long steps of anybody may be
OTHERWISE = "more_otherwise"  # of the other reading of a rank's own time
BATCHES, LEAST_BATCHES = 12, 4  # of slices, to estimate the error from
MOST_BATCHES = 3 / 4  # of them: what is in so many recurs


def above_role(told: OwnTime, groups: pl.DataFrame) -> pl.DataFrame:
    """Return `rank role team clock slice more more_otherwise`, by rank and slice.

    How much a rank's own time is above its role's, in both readings. `groups` lists
    the `members` of each `rank pg pg_desc`.
    """
    calls = told.calls
    # of a job without messages that dumps of NCCL would hold, groups are no stages
    holds = told.shows_messages and calls["record_id"].is_not_null().all()
    alike = rank_roles.roles(calls, "same")
    roles = alike.join(stages(calls, groups, shows_messages=holds), on="rank")
    role = pl.struct("role", "stage").rank("dense").alias("role")
    clocks = calls.select("rank", "clock").unique()
    met = calls.filter(pl.col("meets").is_not_null() & pl.col("group").is_not_null())
    teams = (
        met.group_by("rank", "group")
        .len()
        .sort("len", "group")
        .group_by("rank")
        .agg(pl.col("group").last().alias("team"))
    )
    both = ("own", "own_otherwise")
    return (
        told.slices.join(roles.select("rank", role), on="rank")
        .join(clocks, on="rank")
        .join(teams, on="rank", how="left")
        .with_columns(
            pl.col(c) - pl.col(c).median().over("role", "slice") for c in both
        )
        .rename({"own": "more", "own_otherwise": OTHERWISE})
        .sort("rank", "slice")
    )


def of_ranks(above: pl.DataFrame, *peers: str) -> pl.DataFrame:
    """Return `rank role team clock case share error`: means over slices.

    They are above the median of the `peers` in each slice, and clipped.
    """
    both = ("more", OTHERWISE)
    usual = (pl.col(case).median().over(*peers, "slice") for case in both)
    above = above.with_columns(
        pl.col(case) - median for case, median in zip(both, usual, strict=True)
    )
    return pl.concat([_means(above, case) for case in both]).sort("rank", "case")


def _means(above: pl.DataFrame, case: str) -> pl.DataFrame:
    """Return the means of a `case`, but for long steps that come now and then only.

    What recurs counts whole: so much is in most parts of the history.
    """
    own, more, whole = (
        ("rank", "role", "team", "clock"),
        pl.col("more"),
        pl.col("whole"),
    )
    low, high = (more.quantile(q).over(own) for q in (LONG_STEPS, 1 - LONG_STEPS))
    # slices may cut the steps of two ranks at other places: some together do not
    batch = pl.col("slice") * BATCHES // (pl.col("slice").max().over(own) + 1)
    usual = (more * pl.col("slices")).sum() / pl.col("slices").sum()
    recurs = whole.quantile(1 - MOST_BATCHES, interpolation="lower")
    return (
        above.with_columns(more=pl.col(case), whole=pl.col(case))
        .with_columns(more.clip(low, high), batch=batch)
        .group_by(*own, "batch")
        .agg(more.mean(), whole.mean(), pl.len().alias("slices"))
        .group_by(own)
        .agg(
            pl.max_horizontal(usual, recurs).alias("share"),
            pl.when(recurs > usual)
            .then(whole.std())
            .otherwise(more.std())
            .truediv(pl.len().sqrt())
            .alias("error"),
            pl.len().alias("batches"),
            pl.lit(case).alias("case"),
        )
        .filter(pl.col("batches") >= LEAST_BATCHES)
    )


def shares(ranks: pl.DataFrame, *peers: str) -> pl.DataFrame:
    """Return `ranks` with their share above the usual one of their `peers`.

    No dump tells whether a send holds its rank until the other side has come. Who is
    slow is so in either case; who sends to it seems so in one of them.
    """
    usual = pl.col("share").quantile(0.5, interpolation="lower").over(*peers, "case")
    return (
        ranks.filter(pl.len().over(*peers, "case") > 1)
        .with_columns(pl.col("share") - usual, peers=pl.struct(*peers))
        .sort("rank", "share", "case")
        .unique("rank", keep="first", maintain_order=True)
    )


def chance(slow: pl.DataFrame, of: int) -> float:
    """Return the chance that any of so many ranks is as far above the others as `slow`.

    By Student's t of the mean of its batches, for the least sure of these ranks.
    """
    # importing numpy starts threads, after which workers must not be forked
    import numpy as np

    score = slow.select(t=pl.col("share") / pl.col("error"), free=pl.col("batches") - 1)
    t, free = score.sort("t", "free").row(0)
    angle = np.linspace(-np.pi / 2, np.pi / 2, ANGLES)
    weight = np.cos(angle) ** (free - 1)
    tail = weight[angle >= np.arctan(t / free**0.5)].sum() / weight.sum()
    return min(1.0, of * float(tail))
