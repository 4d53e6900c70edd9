"""Marks, which are log lines and exits, and the columns between calls for them.

A message has a column between the two calls of the job that surround it in time; the
same message at another time has another column. Without times, marks come last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import FAILING

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

MOST = 60  # columns of log messages, and of exits
LATEST = (1 << 63) - 1


def logged(frames: Frames, *, all_messages: bool) -> pl.DataFrame:
    """Return log lines that are marks: `rank name failing t source line text`.

    `name` is the message. Without `all_messages`, only lines that indicate a failure.
    """
    events = frames["events"].drop_nulls("rank")
    failing = pl.col("role").is_in(FAILING).fill_null(False)
    kept = events if all_messages else events.filter(failing)
    named = (pl.col("message").alias("name"), failing.alias("failing"))
    return kept.select("rank", *named, "t", "source", "line", "text")


def ended(frames: Frames) -> pl.DataFrame:
    """Return the processes that failed: the columns of `exits`, and `name`."""
    found = frames["exits"].drop_nulls("rank").filter(pl.col("code") != 0)
    return found.with_columns(pl.lit("exit").alias("name"))


def placed(
    rows: pl.DataFrame, starts: pl.Series, base: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `rows` with `col`, and the columns from `base` on: `name slot col`.

    `starts` has the time when each call was first made (ns, ascending), in the order of
    columns; empty if unknown. A column with `slot` n comes before the nth of them. If
    there would be too many, a message has one column, at its first time. Rows without
    any column have a null `col`.
    """
    t = rows["t"].dt.epoch("ns").fill_null(LATEST)
    slotted = rows.with_columns(
        starts.search_sorted(t, side="right").cast(pl.Int64).alias("slot")
    )
    key = ["name", "slot"]
    if slotted.select(key).n_unique() > MOST:
        slotted = slotted.with_columns(pl.col("slot").min().over("name"))
    columns = (
        slotted.group_by(key)
        .agg(pl.col("line").median().alias("place"), pl.len())
        .sort("len", *key, descending=[True, False, False])
        .head(MOST)
        .sort("slot", "place", "name")
        .with_row_index("col", offset=base)
        .select(*key, pl.col("col").cast(pl.Int64))
    )
    known = slotted.join(columns, on=key, how="left", maintain_order="left")
    return known.drop("slot"), columns
