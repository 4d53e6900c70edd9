"""Columns of one value, and the values of a column: what polars takes longer for."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl

TEXT = pl.String()
FEW = 256  # values that are told apart here faster than by polars


def same(name: str, value: object, height: int, dtype: pl.DataType = TEXT) -> pl.Series:
    """Return the column `name` of so many times `value`, of `dtype`."""
    return _one(name, value, dtype).new_from_index(0, height)


@cache
def _one(name: str, value: object, dtype: pl.DataType) -> pl.Series:
    return pl.Series(name, [value], dtype=dtype)


def distinct(column: pl.Series) -> set[Any]:
    """Return the distinct values of a column, without null."""
    return {*(column if column.len() < FEW else column.unique())} - {None}
