"""How far each rank came in each process group, from dumps and logs together.

A group is told by its name and its members, never by `pg_id`, which counts the groups
of one process. A dump says of every call whether it finished; a watchdog line says
which call its rank gave up; both count calls per group, so both give a standing.

Finished means: `completed`, or `retired` on a backend that retires what it finishes
(Gloo; NCCL retires what it aborts, too), or not above the group's last completed call.
A P2P call that later ones of its group have passed is finished as well: batched P2P
entries of NCCL are often never marked (pytorch#137969).
"""

from __future__ import annotations

import polars as pl

from ncclforensics import tables

# backends that set `retired` on a call that they abort as well
ABORTS_RETIRE = ("nccl", "ncclx", "rccl", "rcclx", "mccl", "hccl", "xccl")


def name_groups(
    groups: pl.DataFrame, collectives: pl.DataFrame, positions: pl.DataFrame
) -> pl.DataFrame:
    """Return which group a rank means: `rank pg pg_desc group members`.

    `group` is the same on all members and differs between groups that share a name.
    Where no evidence lists the members, they are the ranks seen in a call of that name.
    """
    told = (
        groups.filter(pl.col("members").is_not_null() & pl.col("pg").is_not_null())
        .select("rank", "pg", "pg_desc", pl.col("members").list.sort())
        .unique(["rank", "pg", "pg_desc"], keep="first", maintain_order=True)
    )
    used = pl.concat(
        calls.select("rank", "pg", "pg_desc") for calls in (collectives, positions)
    ).filter(pl.col("pg").is_not_null())
    used = used.unique(maintain_order=True)
    seen = used.group_by("pg", "pg_desc").agg(
        pl.col("rank").drop_nulls().unique().sort().alias("seen")
    )
    # a rank whose own evidence does not list the group takes the list of its peers,
    # if all of them agree
    peers = (
        told.group_by("pg", "pg_desc")
        .agg(pl.col("members").unique().alias("lists"))
        .filter(pl.col("lists").list.len() == 1)
        .select("pg", "pg_desc", pl.col("lists").list.first().alias("agreed"))
    )
    keys = ["pg", "pg_desc"]
    named = (
        used.join(told, on=["rank", *keys], how="left", nulls_equal=True)
        .join(peers, on=keys, how="left", nulls_equal=True)
        .join(seen, on=keys, how="left", nulls_equal=True)
        .with_columns(pl.coalesce("members", "agreed").alias("members"))
    )
    listed = pl.col("members").cast(pl.List(pl.String)).list.join(",")
    parts = ("pg", pl.col("pg_desc").fill_null(""), listed.fill_null("?"))
    return named.select(
        "rank",
        *keys,
        pl.concat_str(*parts, separator="|").alias("group"),
        pl.coalesce("members", "seen").alias("members"),
    )


def grouped(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Add `group` and `members` to rows that name a group by `pg` and `pg_desc`."""
    keys = ["rank", "pg", "pg_desc"]
    return frame.join(names, on=keys, how="left", nulls_equal=True)


def unfinished(collectives: pl.DataFrame, positions: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of `collectives` (with `group`) that did not finish."""
    retires = pl.col("retired").fill_null(False)
    aborted = pl.col("backend").is_in(ABORTS_RETIRE)
    done = (pl.col("state") == "completed").fill_null(False) | (retires & ~aborted)
    completed = (
        positions.filter(pl.col("last_completed").is_not_null())
        .group_by("rank", "group")
        .agg(pl.col("last_completed").max())
    )
    passed = (
        collectives.filter(done & pl.col("is_p2p"))
        .group_by("rank", "group")
        .agg(pl.col("record_id").max().alias("passed"))
    )
    keys = ["rank", "group"]
    return (
        collectives.filter(~done)
        .join(completed, on=keys, how="left", maintain_order="left")
        .join(passed, on=keys, how="left", maintain_order="left")
        .filter(
            pl.when(pl.col("is_p2p"))
            .then((pl.col("record_id") > pl.col("passed")).fill_null(True))
            .otherwise((pl.col("seq") > pl.col("last_completed")).fill_null(True))
        )
        .drop("last_completed", "passed")
    )


def standings(
    calls: pl.DataFrame, open_calls: pl.DataFrame, positions: pl.DataFrame
) -> pl.DataFrame:
    """Return the `standings` frame.

    `calls` are all collectives and `open_calls` the unfinished ones, both with `group`
    and `members`; `positions` likewise.
    """
    keys = ["rank", "group"]
    about = ["pg", "pg_desc", "members"]
    collective = pl.col("is_p2p").not_().fill_null(True)
    first = (
        open_calls.filter(collective)
        .sort("record_id", maintain_order=True)
        .group_by(keys, maintain_order=True)
        .first()
        .select(
            *keys,
            pl.col("seq").alias("waits_in"),
            "op",
            pl.col("record_id").alias("place"),
            "t",
            "source",
            "line",
        )
    )
    from_dumps = (
        calls.filter(collective)
        .group_by(keys, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in about),
            pl.col("seq").max().alias("enqueued"),
            pl.col("source").last().alias("seen_in"),
            pl.col("line").last().alias("seen_at"),
        )
        .join(first, on=keys, how="left")
    )
    from_logs = (
        positions.drop_nulls("group")
        .group_by(keys, maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in about),
            pl.max_horizontal("last_enqueued", "timed_out")
            .max()
            .alias("told_enqueued"),
            pl.col("last_completed").max().alias("completed"),
            pl.col("timed_out").min(),
            pl.col("op").sort_by("timed_out", nulls_last=True).first().alias("told_op"),
            pl.col("t").min().alias("told_t"),
            pl.col("source").first().alias("told_in"),
            pl.col("line").first().alias("told_at"),
        )
    )
    both = from_dumps.drop_nulls("group").join(
        from_logs, on=keys, how="full", coalesce=True, suffix="_told"
    )
    in_dump = pl.col("source").is_not_null()
    return tables.conform(
        "standings",
        both.select(
            *keys,
            *(pl.coalesce(c, f"{c}_told").alias(c) for c in about),
            pl.coalesce("waits_in", "timed_out").alias("waits_in"),
            pl.when(in_dump).then("op").otherwise("told_op").alias("op"),
            pl.max_horizontal("enqueued", "told_enqueued").alias("enqueued"),
            "completed",
            "place",
            pl.when(in_dump).then("t").otherwise("told_t").alias("t"),
            pl.coalesce("source", "told_in", "seen_in").alias("source"),
            pl.when(in_dump)
            .then("line")
            .otherwise(pl.coalesce("told_at", "seen_at"))
            .alias("line"),
        ).sort("group", "rank"),
    )
