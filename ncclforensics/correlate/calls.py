"""The calls that ranks cannot get past, and what each member does about them.

A rank is held up by its first unfinished call, in the order in which it made them;
what it enqueued behind that one says nothing. Members of that call are waiting in it,
done with it, absent (they have evidence and never made it), behind (they made it, and
are held up in an earlier call themselves) or unseen (nothing of them was given).
"""

from __future__ import annotations

import polars as pl

from ncclforensics import tables

STATES = ("waiting", "behind", "done", "absent", "unseen")


def held_up(open_calls: pl.DataFrame, standings: pl.DataFrame) -> pl.DataFrame:
    """Return the call that holds up each rank, one row a rank.

    `open_calls` are unfinished collectives with `group` and `members`. A rank without
    any takes the call that its watchdog gave up. P2P calls get `peer`, the other side
    as a global rank, and `members` of the two; a receive from anybody has no peer.
    """
    first = (
        open_calls.sort("rank", "record_id", maintain_order=True)
        .group_by("rank", maintain_order=True)
        .first()
    )
    sender = pl.col("members").list.get(pl.col("src"), null_on_oob=True)
    receiver = pl.col("members").list.get(pl.col("dst"), null_on_oob=True)
    columns = [
        "group",
        "pg",
        "pg_desc",
        "seq",
        "op",
        "is_p2p",
        "members",
        "src",
        "dst",
        "stack",
        "t",
        "source",
        "line",
    ]
    from_dumps = first.with_columns(
        sender.alias("src"),
        receiver.alias("dst"),
        pl.when(pl.col("is_p2p"))
        .then(pl.concat_list(sender, receiver).list.drop_nulls())
        .otherwise("members")
        .alias("members"),
    ).select("rank", *columns)
    from_logs = (
        standings.filter(
            pl.col("waits_in").is_not_null() & pl.col("rank").is_not_null()
        )
        .join(from_dumps, on="rank", how="anti")
        .sort("rank", "t", maintain_order=True)
        .group_by("rank", maintain_order=True)
        .first()
        .select(
            "rank",
            "group",
            "pg",
            "pg_desc",
            pl.col("waits_in").alias("seq"),
            "op",
            pl.lit(False).alias("is_p2p"),
            "members",
            pl.lit(None, pl.Int64).alias("src"),
            pl.lit(None, pl.Int64).alias("dst"),
            pl.lit(None, pl.UInt64).alias("stack"),
            "t",
            "source",
            "line",
        )
    )
    return pl.concat([from_dumps, from_logs]).sort("rank")


def calls(
    held: pl.DataFrame,
    open_calls: pl.DataFrame,
    standings: pl.DataFrame,
    seen: pl.Series,
) -> pl.DataFrame:
    """Return the `calls` frame: each call that holds somebody up, once.

    `seen` are the ranks of which there is evidence that would show their calls.
    """
    p2p = pl.col("is_p2p").fill_null(False)
    key = ["group", "seq", "src", "dst"]
    # the number of a P2P call is its rank's own, so the two sides make up the key
    keyed = held.with_columns(
        pl.when(p2p).then(None).otherwise("seq").alias("seq"),
        pl.col("seq").alias("printed"),
        pl.when(p2p).then("src").alias("src"),
        pl.when(p2p).then("dst").alias("dst"),
    )
    distinct = (
        keyed.group_by(key, maintain_order=True)
        .agg(
            pl.col("rank").alias("stuck"),
            *(
                pl.col(c).first()
                for c in ("pg", "pg_desc", "is_p2p", "members", "printed")
            ),
            pl.col("op").mode().sort().first(),
            *(pl.col(c).first() for c in ("stack", "source", "line")),
            pl.col("t").min(),
        )
        .with_row_index("call")
        .with_columns(pl.col("call").cast(pl.Int64))
    )
    members = distinct.select(
        "call", *key, "stuck", "is_p2p", pl.col("members").alias("rank")
    ).explode("rank")
    states = _states(members, open_calls, standings, seen)
    by_state = states.group_by("call", maintain_order=True).agg(
        pl.col("rank").filter(pl.col("state") == state).sort().alias(state)
        for state in STATES
    )
    found = distinct.with_columns(pl.col("printed").alias("seq")).join(
        by_state, on="call", how="left"
    )
    schema = tables.SCHEMAS["calls"]
    return tables.conform(
        "calls", found.select(c for c in found.columns if c in schema)
    )


def _states(
    members: pl.DataFrame,
    open_calls: pl.DataFrame,
    standings: pl.DataFrame,
    seen: pl.Series,
) -> pl.DataFrame:
    """Return `call rank state` for every member of every call."""
    standing = standings.select("rank", "group", "enqueued", "completed", "waits_in")
    sender = pl.col("members").list.get(pl.col("src"), null_on_oob=True)
    receiver = pl.col("members").list.get(pl.col("dst"), null_on_oob=True)
    pairs = (
        open_calls.filter(pl.col("is_p2p"))
        .select("rank", "group", sender.alias("src"), receiver.alias("dst"))
        .unique()
        .with_columns(pl.lit(True).alias("posted"))
    )
    both = members.join(standing, on=["rank", "group"], how="left").join(
        pairs, on=["rank", "group", "src", "dst"], how="left"
    )
    seq = pl.col("seq")
    posted = pl.col("posted").fill_null(False)
    passed = (pl.col("completed") >= seq) | (pl.col("waits_in") > seq)
    joined = pl.col("enqueued") >= seq
    held_here = pl.col("waits_in").is_not_null()
    state = (
        pl.when(pl.col("stuck").list.contains(pl.col("rank")))
        .then(pl.lit("waiting"))
        .when(~pl.col("rank").is_in(seen.implode()))
        .then(pl.lit("unseen"))
        .when(pl.col("is_p2p"))
        .then(pl.when(posted).then(pl.lit("behind")).otherwise(pl.lit("absent")))
        .when(passed.fill_null(False))
        .then(pl.lit("done"))
        .when(joined.fill_null(False))
        .then(pl.when(held_here).then(pl.lit("behind")).otherwise(pl.lit("done")))
        .otherwise(pl.lit("absent"))
    )
    return both.select("call", "rank", state.alias("state"))
