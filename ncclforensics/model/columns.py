"""Columns of one value, which take longer to make as a literal of an expression."""

from __future__ import annotations

from functools import cache

import polars as pl

TEXT = pl.String()


def same(name: str, value: object, height: int, dtype: pl.DataType = TEXT) -> pl.Series:
    """Return the column `name` of so many times `value`, of `dtype`."""
    return _one(name, value, dtype).new_from_index(0, height)


@cache
def _one(name: str, value: object, dtype: pl.DataType) -> pl.Series:
    return pl.Series(name, [value], dtype=dtype)
