"""Monitored barriers: rank 0 asks all other ranks, and names those that do not answer.

With `wait_all_ranks` it names all of them, else the first (ProcessGroupGloo.cpp). The
others print that they reached the barrier, and that rank 0 failed, if they live to.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.frames import once_if_empty

FAILED, REACHED = "c10d.monitored_barrier.failed", "c10d.monitored_barrier.reached"


@once_if_empty()
def missing(lines: pl.DataFrame) -> frozenset[int]:
    """Return the ranks that rank 0 names in `lines`, the rows of message FAILED."""
    return frozenset(_named(lines)["missing"])


@once_if_empty()
def came(lines: pl.DataFrame) -> pl.DataFrame:
    """Return a row of `lines` for each rank that it shows to have reached its barrier.

    A line that names several ranks names all that are missing: any other rank below
    those exists, and came. `rank` is that rank.
    """
    named = _named(lines)
    several = named.filter(pl.len().over("source", "line") > 1)
    last = several.sort("missing").tail(1)
    reached = last.with_columns(pl.int_ranges("missing").alias("rank")).explode("rank")
    gone = pl.col("rank").is_in(named["missing"].implode())
    return reached.filter(~gone).drop("missing")


def _named(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of FAILED, one for each rank that is `missing`."""
    if "missing" not in lines.columns:
        return lines.clear().with_columns(pl.lit(None, pl.Int64).alias("missing"))
    numbers = lines.with_columns(pl.col("missing").str.extract_all(r"\d+"))
    number = pl.col("missing").cast(pl.Int64, strict=False)
    return numbers.explode("missing").with_columns(number).drop_nulls("missing")
