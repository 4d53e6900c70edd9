"""The captures of lines, of which a frame has only those that some line fills.

What no line has costs as much as what all have, so it is no column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable


def printed(frame: pl.DataFrame) -> list[str]:
    """Return the columns that are not null in all rows."""
    return [c.name for c in frame.iter_columns() if c.null_count() < frame.height]


def first(frame: pl.DataFrame, *names: str) -> pl.Expr:
    """Return what a line has of some captures, by the first; null without a column."""
    known = [name for name in names if name in frame.columns]
    return pl.coalesce(known) if known else pl.lit(None, pl.String)


def number(text: pl.Expr) -> pl.Expr:
    """Return captures as Int64, null where they are no number."""
    return text.cast(pl.Int64, strict=False)


def joined(frame: pl.DataFrame, names: Iterable[str]) -> pl.Expr:
    """Return the captures `names` that a line has, as one string."""
    known = [name for name in names if name in frame.columns]
    if not known:
        return pl.lit("")
    return pl.concat_str(known, separator="|", ignore_nulls=True)
