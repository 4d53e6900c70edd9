"""Splits lines that are too long to be matched as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers import limits

if TYPE_CHECKING:
    from collections.abc import Sequence


def may_be_long(data: bytes) -> bool:
    """Whether one of these lines may be longer than MAX_REDRAWN.

    Such a line spans at least one window of half that size without an LF.
    """
    half = limits.MAX_REDRAWN // 2
    starts = range(0, len(data), half)
    return len(data) > 2 * half and any(
        data.find(b"\n", start, start + half) < 0 for start in starts
    )


def shortened(lines: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[int]]:
    """Split long lines where a progress bar redraws; truncate what is still long.

    Returns the lines, where pieces keep the number of their line, and the numbers of
    the truncated lines.
    """
    too_long = lines["raw"].str.len_bytes() > limits.MAX_REDRAWN
    if not too_long.any():
        return lines, ()
    pieces = lines.filter(too_long).with_columns(pl.col("raw").str.split("\r"))
    pieces = pieces.explode("raw")
    raw = pl.col("raw")
    still = pieces.filter(raw.str.len_bytes() > limits.MAX_LINE)["line"].unique()
    cut = pieces.with_columns(raw.str.head(limits.MAX_LINE))
    parts = [lines.filter(~too_long), cut]
    return pl.concat(parts).sort("line", maintain_order=True), still.to_list()
