"""Splits lines that are too long to be matched as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers import limits

if TYPE_CHECKING:
    from collections.abc import Sequence


def may_be_long(data: bytes) -> bool:
    """Whether one of these lines may be longer than MAX_REDRAWN.

    A line that is leaves no LF in some half of that many bytes.
    """
    half = limits.MAX_REDRAWN // 2
    starts = range(0, len(data), half)
    return len(data) > 2 * half and any(
        data.find(b"\n", start, start + half) < 0 for start in starts
    )


def shortened(lines: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[int]]:
    """Take long lines apart where a progress bar redraws; cut what is still long.

    Returns the lines, where pieces of one line have its number, and the numbers of the
    lines of which not all is there.
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
