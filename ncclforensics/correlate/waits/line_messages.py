"""Messages that ranks timed out in, as rows of the frame `calls`, from watchdog lines.

A watchdog prints SEND or RECV and a number that is the rank's own, and not its peer.
But the members of a group pass messages on to each other. So those that wait in them
wait, directly or through each other, for a member that does not: next to one of them if
the group is a pipeline or a ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces.positions import since
from ncclforensics.correlate.traces.progress import UNLISTED
from ncclforensics.model import tables

if TYPE_CHECKING:
    from ncclforensics.correlate.waits.roll_call import Roll

NOBODY = ("behind", "done", "unstarted")


def added(
    calls: pl.DataFrame,
    messages: pl.DataFrame,
    members: pl.DataFrame,
    standings: pl.DataFrame,
    roll: Roll,
) -> pl.DataFrame:
    """Return `calls` and a row for each group in whose `messages` ranks timed out.

    Only if one member alone can be the one that is waited for: it is `absent` if its
    own evidence would show the message, else `unseen`. `messages` are rows of
    `positions` with `group`; ranks with a dump are left to it. Of unlisted groups of
    which one rank alone tells, nobody knows who its other members are.
    """
    if messages.is_empty():
        return calls
    dumped = standings.filter(pl.col("place").is_not_null())["rank"]
    of_dumps = pl.col("rank").is_in(dumped.implode())
    named = messages.drop_nulls("group")
    unlisted = pl.col("group").str.ends_with(UNLISTED)
    several = pl.col("rank").n_unique().over(pl.coalesce("pg_desc", "group")) > 1
    told = named.filter(several | ~unlisted).filter(~of_dumps)
    if told.is_empty():
        return calls
    heard = sorted({*standings["rank"], *roll.waited, *roll.gone})
    places = members.filter(pl.col("group").is_in(told["group"].implode()))
    wanted = pl.col("wanted")
    rows = (
        told.sort("rank", "source", "line")
        .group_by("group", maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in ("pg", "pg_desc", "source", "line")),
            pl.col("op").str.to_lowercase().mode().sort().first(),
            pl.col("rank").unique().sort().alias("waiting"),
            since().min().alias("t"),
        )
        .join(_wanted(told, places), on="group", maintain_order="left")
        .filter(wanted.list.len() == 1)
        .with_columns(
            wanted.list.set_intersection(heard).alias("absent"),
            wanted.list.set_difference(heard).alias("unseen"),
            pl.col("waiting").list.set_union(wanted).list.sort().alias("members"),
            *(pl.lit([], pl.List(pl.Int64())).alias(c) for c in NOBODY),
            pl.lit(value=True).alias("is_p2p"),
        )
        .drop("wanted")
    )
    both = pl.concat([calls, tables.conform("calls", rows)])
    return both.with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("call"))


def _wanted(told: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return `group wanted`: the members that do not wait, next to one that does.

    In the group of all ranks, in which pipelines may have any stride, any member.
    """
    here = told.select("group", "rank", waits=True).unique()
    seats = (
        places.explode("members")
        .rename({"members": "rank"})
        .join(here, on=["group", "rank"], how="left", maintain_order="left")
        .with_columns(pl.col("waits").fill_null(value=False))
    )
    # the neighbours of the first and of the last member are each other's
    waits = pl.col("waits")
    before = waits.shift(1).over("group").fill_null(waits.last().over("group"))
    after = waits.shift(-1).over("group").fill_null(waits.first().over("group"))
    default = [g for g in places["group"] if world.is_default(g)]
    anywhere = pl.col("group").is_in(default)
    wanted = seats.filter(~waits & (before | after | anywhere))
    return wanted.group_by("group").agg(pl.col("rank").sort().alias("wanted"))
