"""Gives each position from logs and dumps the name of its group, or drops it.

A watchdog prints its timeout without a group and then a status line with one. torch 2.3
and 2.4 print only the number of the group: 0 is the default group, and other numbers
are the rank's own. A dump's `pg_status` is keyed by that number too, and only entries
give its name. If a rank's groups are named by a counter, names and numbers are both in
order of creation and can be matched by position.

A dump's numbers count something else if the last call of the group was P2P (its P2P
number), and on Gloo (every operation): those are dropped. In a group with messages the
last completed call may be a message though the last enqueued one is not.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.frames import needing, once_if_empty
from ncclforensics.model.tables import SCHEMAS, TIME

DEFAULT = "default_pg"
NAME = ("pg", "pg_id", "pg_desc")
MESSAGES = ("send", "recv", "coalesced")  # the last one ends a batch of messages


def since() -> pl.Expr:
    """Return when the wait of a position began: its line's time less what it ran."""
    ran = pl.duration(milliseconds=pl.coalesce("ran_ms", "timeout_ms", pl.lit(0)))
    return (pl.col("t") - ran).cast(TIME)


def first_open(positions: pl.LazyFrame) -> pl.LazyFrame:
    """Return positions whose `timed_out` is the first call that the rank has open.

    A watchdog may give up a later one first. The call behind the last completed one is
    open as well, if another rank of the group gave it up: some numbers have no call.
    """
    given_up = positions.drop_nulls("timed_out").group_by("group", "timed_out")
    calls = given_up.agg(pl.col("op").drop_nulls().first().alias("earlier"))
    behind = (pl.col("last_completed") + 1).alias("behind")
    known = positions.with_columns(behind).join(
        calls.with_columns(pl.col("timed_out").alias("first")),
        left_on=["group", "behind"],
        right_on=["group", "timed_out"],
        how="left",
        maintain_order="left",
    )
    is_earlier = (pl.col("first") < pl.col("timed_out")).fill_null(False)
    return known.with_columns(
        pl.when(is_earlier).then(new).otherwise(old).alias(old)
        for old, new in (("op", pl.col("earlier")), ("timed_out", pl.col("first")))
    ).drop("behind", "first", "earlier")


@once_if_empty(decided_by=1)
def named(
    positions: pl.DataFrame, groups: pl.DataFrame, made: pl.DataFrame
) -> pl.DataFrame:
    """Return `positions` with `pg` and `pg_desc` filled in, for rows with a rank.

    `made` is `progress.summary` of the collectives.
    """
    told = positions.drop_nulls("rank")
    if told.is_empty():
        return told
    sources = pl.concat([groups["source"], made["source"]]).unique().implode()
    from_dump = pl.col("source").is_in(sources) & pl.col("timed_out").is_null()
    dumped = _from_dumps(told.filter(from_dump), groups, made)
    lines = _without_messages(_from_lines(told.filter(~from_dump)))
    return pl.concat([dumped, lines])


@once_if_empty()
def messages(positions: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of messages that ranks timed out in, with `pg` and `pg_desc`."""
    told = positions.drop_nulls(["rank", "timed_out"])
    is_message = pl.col("op").str.to_lowercase().is_in(MESSAGES)
    if told.filter(is_message).is_empty():
        return told.clear()
    return _from_lines(told).filter(is_message & ~_is_nameless())


@needing(otherwise=SCHEMAS["positions"])
def _without_messages(told: pl.DataFrame) -> pl.DataFrame:
    """Drop the numbers of messages, which are a rank's own and not a group's.

    If batches are counted among these, all numbers of the group are of that kind. In a
    group with other messages a row is kept only if a line names a collective for the
    call it gave up; if the row itself names no operation, its `last_*` counts become
    null.
    """
    op, key = pl.col("op").str.to_lowercase(), ["source", *NAME]
    message = op.is_in(MESSAGES).fill_null(False)
    named, batch = ~_is_nameless(), (op == MESSAGES[-1]).fill_null(False)
    unnamed = pl.col("op").is_null()
    given_up = (~unnamed & ~message).any().over([*key, "timed_out"])
    marked = told.with_columns(
        (message & named).any().over(key).alias("talks"),
        (batch & named).any().over(key).alias("batches"),
        given_up.alias("given_up"),
    )
    kept = marked.filter(
        ~message & ~pl.col("batches") & (~pl.col("talks") | pl.col("given_up"))
    )
    return kept.with_columns(
        pl.when(pl.col("talks") & unnamed).then(None).otherwise(c).alias(c)
        for c in ("last_enqueued", "last_started", "last_completed")
    ).select(told.columns)


def _is_nameless() -> pl.Expr:
    return pl.all_horizontal(pl.col(c).is_null() for c in NAME)


@needing(otherwise=SCHEMAS["positions"])
def _from_lines(told: pl.DataFrame) -> pl.DataFrame:
    key = ["source", "rank", "timed_out"]
    names = (
        told.filter(~_is_nameless())
        .drop_nulls("timed_out")
        .unique([*key, *NAME])
        .filter(pl.len().over(key) == 1)
        .select(*key, *(pl.col(c).alias(f"_{c}") for c in NAME))
    )
    joined = told.join(names, on=key, how="left", maintain_order="left")
    filled = joined.with_columns(pl.coalesce(c, f"_{c}").alias(c) for c in NAME).select(
        told.columns
    )
    is_default = (pl.col("pg_desc") == DEFAULT) | (pl.col("pg_id") == "0")
    is_default = is_default.fill_null(False)
    default = is_default & pl.col("pg").is_null() | _is_in_default(filled, is_default)
    return filled.with_columns(
        pl.when(default).then(pl.lit("0")).otherwise("pg").alias("pg"),
        pl.when(default).then(pl.lit(DEFAULT)).otherwise("pg_desc").alias("pg_desc"),
    )


def _is_in_default(told: pl.DataFrame, is_default: pl.Expr) -> pl.Expr:
    """Whether a row without a group gave up the same call as rows of the default group.

    Its rank in the group is then that in the job, and no other line of it is of that
    group.
    """
    theirs = told.filter(is_default)
    mine, given_up = theirs["rank"].unique(), theirs["timed_out"].drop_nulls().unique()
    same = (pl.col("group_rank") == pl.col("rank")) & pl.col("timed_out").is_in(
        given_up.implode()
    )
    own = pl.col("rank").is_in(mine.implode())
    return (_is_nameless() & same & ~own).fill_null(False)


@once_if_empty(decided_by=1)
def _from_dumps(
    told: pl.DataFrame, groups: pl.DataFrame, made: pl.DataFrame
) -> pl.DataFrame:
    """Name positions by creation order, and drop those that count something else."""
    gloo = made.filter(pl.col("backend") == "gloo")["source"].unique().implode()
    # if any rank has messages in a group, its numbers may be theirs, unless this dump
    # has entries of the group and its parser saw the last one
    talks = made.filter("has_p2p").select("pg", "pg_desc").unique()
    seen = made.select("source", "pg_id").unique()
    kept = _numbered(told.filter(~pl.col("source").is_in(gloo)), groups)
    with_talk = pl.struct("pg", "pg_desc").is_in(talks.to_struct().implode())
    unknown = pl.lit(None, pl.Int64)
    shown = (
        kept.filter(with_talk)
        .join(seen, on=["source", "pg_id"], how="semi", maintain_order="left")
        .with_columns(unknown.alias("last_started"), unknown.alias("last_completed"))
    )
    return pl.concat([kept.filter(~with_talk), shown])


def _numbered(told: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Match a dump's group numbers with its group names that are counters.

    Only if there are as many numbers as names, and if every name that the entries give
    is at its position.
    """
    nameless = told.filter(pl.col("pg").is_null())["source"].unique()
    if nameless.is_empty():
        return told
    place = pl.int_range(pl.len()).over("source").alias("place")
    size = pl.len().over("source").alias("size")
    numbers = (
        told.filter(pl.col("source").is_in(nameless.implode()))
        .with_columns(pl.col("pg_id").cast(pl.Int64, strict=False).alias("number"))
        .sort("source", "number", maintain_order=True)
        .with_columns(place, size)
    )
    names = (
        groups.filter(
            pl.col("source").is_in(nameless.implode()) & pl.col("pg").is_not_null()
        )
        .select("source", "pg", "pg_desc")
        .unique(maintain_order=True)
        .with_columns(pl.col("pg").cast(pl.Int64, strict=False).alias("number"))
        .sort("source", "number", maintain_order=True)
        .select(
            "source",
            pl.col("pg").alias("_pg"),
            pl.col("pg_desc").alias("_desc"),
            pl.col("number").alias("_number"),
            place,
            size,
        )
    )
    laid = numbers.join(names, on=["source", "place", "size"], how="inner")
    known = pl.col("pg").is_not_null()
    agreed = ~known | (pl.col("pg") == pl.col("_pg")).fill_null(False)
    counted = pl.col("number").is_not_null() & pl.col("_number").is_not_null()
    good = laid.filter((agreed & counted).all().over("source"))
    return (
        told.join(
            good.select("source", "pg_id", "_pg", "_desc"),
            on=["source", "pg_id"],
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.coalesce("pg", "_pg").alias("pg"),
            pl.coalesce("pg_desc", "_desc").alias("pg_desc"),
        )
        .drop("_pg", "_desc")
    )
