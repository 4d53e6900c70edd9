"""Plans over frames in memory: several steps on few rows, executed as one."""

from __future__ import annotations

import polars as pl

AS_WRITTEN = pl.QueryOptFlags.none()


def collected(plan: pl.LazyFrame) -> pl.DataFrame:
    """Return the rows of a plan over frames in memory, in the steps that it has.

    On few rows the steps of one plan cost half of what they cost one by one, and to
    optimize them costs more than it saves.
    """
    return plan.collect(engine="in-memory", optimizations=AS_WRITTEN)
