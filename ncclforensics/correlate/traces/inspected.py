"""Calls that NCCL's Inspector timed, for jobs without dumps.

It prints a line for each collective that a rank completed, or for the last one at each
of its looks: then ranks tell of different calls, and only those count that all members
tell of. A number counts the calls of one operation of a communicator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import SCHEMAS, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

COMPLETED = "inspector.completed"
CALL = ["pg", "op", "operation"]


def calls(frames: Frames) -> pl.DataFrame:
    """Return rows as of `collectives`, with `group` and `kind`; empty without lines.

    `seq` numbers all calls of a group. The time in which calls were made that not all
    tell of is left out of `t`, as far as it goes on average.
    """
    lines = frames.message(COMPLETED)
    of = SCHEMAS["collectives"]
    if "took_us" not in lines.columns:
        return without_rows(
            of | {"group": pl.String(), "kind": pl.UInt64(), "bytes": pl.Int64()}
        )
    told = lines.drop_nulls(["rank", "at_us"]).unique(["rank", *CALL], keep="last")
    made = pl.col("operation").max() - pl.col("operation").min() + 1
    span = told.group_by("rank", "pg", "op").agg(made.alias("made"))
    told = (
        told.filter(pl.len().over(CALL) == pl.col("nranks"))
        .join(span.group_by("rank").agg(pl.col("made").sum()), on="rank")
        .sort("rank", "source", "line")
    )
    at, share = pl.col("at_us"), pl.len().over("rank") / pl.col("made")
    first = at.min().over("rank")
    number = pl.col("op").rank("dense").over("pg").cast(pl.Int64) - 1
    many = pl.col("op").n_unique().over("pg")
    return told.select(
        "rank",
        "pg",
        pl.col("pg").alias("group"),
        "op",
        "source",
        "line",
        "bytes",
        (pl.col("operation") * many + number).alias("seq"),
        (pl.col("took_us") / 1e3).alias("duration_ms"),
        (first + (at - first) * share)
        .cast(pl.Int64)
        .cast(pl.Datetime("us", "UTC"))
        .cast(of["t"])
        .alias("t"),
        pl.struct("op", "bytes").hash(seed=0).alias("kind"),
        pl.lit("nccl").alias("backend"),
        pl.lit(False).alias("is_p2p"),
        *(
            pl.lit(None, of[c]).alias(c)
            for c in ("pg_desc", "pg_id", "record_id", "src", "dst", "t_completed")
        ),
        pl.lit(None, of["stack"]).alias("stack"),
    )
