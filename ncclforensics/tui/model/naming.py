"""Which columns a process group's calls stand in.

All groups with one description (`TENSOR_MODEL_PARALLEL_GROUP`) share columns if no rank
is in two of them: their calls with one number then stand below each other. Otherwise a
group has columns of its own. P2P calls count apart from collectives, so they have
columns apart.
"""

from __future__ import annotations

import polars as pl

KEY = ("pg", "pg_desc", "p2p")
UNNAMED = ("", "undefined")
P2P = " p2p"

# the number that a call has in its column's kind
NUMBER = (
    pl.when(pl.col("is_p2p").fill_null(False))
    .then(pl.coalesce(pl.when(pl.col("p2p_seq") > 0).then("p2p_seq"), "seq"))
    .otherwise("seq")
)


def keyed() -> tuple[pl.Expr, ...]:
    """Return `pg`, `pg_desc`, `p2p` and `n` of rows like those of `collectives`."""
    return (
        pl.col("pg").fill_null(""),
        pl.col("pg_desc").fill_null(""),
        pl.col("is_p2p").fill_null(False).alias("p2p"),
        NUMBER.alias("n"),
    )


def kinds(members: pl.DataFrame) -> pl.DataFrame:
    """Return `gid kind pg pg_desc p2p`, one row a group.

    `members` has the columns `rank` and KEY, each rank of a group once.
    """
    shared = (
        members.group_by("rank", "pg_desc", "p2p")
        .len()
        .group_by("pg_desc", "p2p")
        .agg((pl.col("len") > 1).any().alias("overlap"))
    )
    named = pl.col("pg_desc").is_in(UNNAMED).not_() & pl.col("overlap").not_()
    label = (
        pl.when(named)
        .then("pg_desc")
        .when(pl.col("pg_desc").is_in(UNNAMED) | (pl.col("pg_desc") == pl.col("pg")))
        .then(pl.concat_str(pl.lit("pg "), "pg"))
        .otherwise(pl.concat_str("pg_desc", pl.lit(" "), "pg"))
    )
    tail = pl.when("p2p").then(pl.lit(P2P)).otherwise(pl.lit(""))
    return (
        members.select(KEY)
        .unique()
        .join(shared, on=["pg_desc", "p2p"], how="left")
        .sort("pg", "pg_desc", "p2p")
        .with_row_index("gid")
        .select("gid", (label + tail).alias("kind"), *KEY)
    )
