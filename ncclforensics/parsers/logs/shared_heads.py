"""Frames one line for all that begin alike: NCCL's calls, of which a log has most.

What stands in front of a call's arguments is the same in each line of a thread: the
prefix of a launcher, the header, the name of the call. All that framing tells of a line
stands there, so it is told once. Lines whose beginnings vary, as by a time, gain
nothing and are framed each for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers.logs.lines import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARK = ": opCount "
LEAST = 4096  # lines from which looking for equal beginnings pays off
FEW = 8  # lines of one beginning, on average, from which it does
OWN = ("line", "raw", "text")  # what each line has of its own
HEAD = ["file", "head"]


def framed(
    lines: pl.DataFrame,
    frame: Callable[[pl.DataFrame], pl.DataFrame],
    telling: Sequence[str],
) -> pl.DataFrame:
    """Return what `frame` does of `lines` (`line`, `raw`), which is called for fewer.

    A line that holds anything of `telling` behind its beginning is framed for itself.
    """
    if lines.height < LEAST or lines.width > len(("line", "raw")):
        return frame(lines)
    apart = pl.col("raw").str.splitn(MARK, 2).struct
    split = lines.filter(pl.col("raw").str.contains(MARK, literal=True)).select(
        *lines.columns,
        (pl.col("line") // FILE).alias("file"),
        apart.field("field_0").alias("head"),
        apart.field("field_1").alias("rest"),
    )
    split = split.filter(~pl.col("rest").str.contains_any([*telling, MARK]))
    split = split.filter(pl.col("line").is_unique())
    first = split.unique(HEAD, keep="first", maintain_order=True)
    if split.height < max(LEAST, FEW * first.height):
        return frame(lines)
    others = split.join(first, on=["line"], how="anti", maintain_order="left")
    alone = lines.join(others, on=["line"], how="anti", maintain_order="left")
    segments = frame(alone)
    shown = segments.join(first.select("line", "rest", *HEAD), on="line")
    ends = MARK + pl.col("rest")
    is_plain = (
        (pl.len().over("line") == 1)
        & pl.col("text").str.ends_with(ends)
        & (pl.col("raw").str.ends_with(pl.col("text")))
    )
    shown = shown.filter(is_plain).with_columns(
        pl.col("text").str.strip_suffix(ends).alias("name")
    )
    shown = shown.drop(*OWN, "rest")
    told = others.join(shown, on=HEAD, how="left", maintain_order="left")
    told = told.with_columns((pl.col("name") + MARK + pl.col("rest")).alias("text"))
    open_ = told.filter(pl.col("name").is_null()).select(lines.columns)
    parts = [segments, told.drop_nulls("name").select(segments.columns)]
    parts += [frame(open_)] if open_.height else []
    return pl.concat(parts).sort("line", "part", maintain_order=True)
