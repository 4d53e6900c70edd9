"""An empty line below each line, as a paste from a web page or a mail has it.

Such lines part what belongs together: a traceback, a table, a report of several lines.
"""

from __future__ import annotations

import polars as pl

LEAST = 4  # lines of text
SHARE = 0.9  # of them that an empty line follows
_EMPTY = r"^\s*$"


def may_be() -> pl.Expr:
    """Whether a good part of the lines is empty."""
    return pl.col("raw").str.contains(_EMPTY).mean().fill_null(0) >= SHARE / 2


def found(lines: pl.DataFrame) -> bool | None:
    """Return True if an empty line follows nearly each line, and one alone."""
    empty = lines["raw"].str.contains(_EMPTY)
    above = empty.shift(1, fill_value=True)
    text = int((~empty).sum())
    single = int((~empty & above).sum()) - int((empty & above).sum())
    return True if text >= LEAST and single >= SHARE * text else None


def undone(lines: pl.DataFrame, how: bool) -> pl.DataFrame:
    """Drop each empty line below another line."""
    empty = pl.col("raw").str.contains(_EMPTY)
    return lines.filter(~empty | empty.shift(1, fill_value=True))


def says(how: bool) -> str:
    """Say what was dropped."""
    return "an empty line below each line is left out"
