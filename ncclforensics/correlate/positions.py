"""Gives the positions that logs tell the name of their group, where lines left it out.

A watchdog prints its timeout without a group and then a status line with one; torch 2.3
and 2.4 print only the number of the group, which is the default group's for 0 and any
rank's own for the others. What stays without a name belongs to no group.
"""

from __future__ import annotations

import polars as pl

DEFAULT = "default_pg"
NAME = ("pg", "pg_id", "pg_desc")


def named(positions: pl.DataFrame) -> pl.DataFrame:
    """Fill in `pg` (and `pg_desc`) of the `positions` frame; drop what has no rank."""
    told = positions.drop_nulls("rank")
    nameless = pl.all_horizontal(pl.col(c).is_null() for c in NAME)
    key = ["source", "rank", "timed_out"]
    names = (
        told.filter(~nameless)
        .drop_nulls("timed_out")
        .unique([*key, *NAME])
        .filter(pl.len().over(key) == 1)
        .select(*key, *(pl.col(c).alias(f"_{c}") for c in NAME))
    )
    joined = told.join(names, on=key, how="left", maintain_order="left")
    filled = joined.with_columns(pl.coalesce(c, f"_{c}").alias(c) for c in NAME).select(
        positions.columns
    )
    is_default = (pl.col("pg_desc") == DEFAULT) | (pl.col("pg_id") == "0")
    default = is_default.fill_null(False) & pl.col("pg").is_null()
    return filled.with_columns(
        pl.when(default).then(pl.lit("0")).otherwise("pg").alias("pg"),
        pl.when(default).then(pl.lit(DEFAULT)).otherwise("pg_desc").alias("pg_desc"),
    )
