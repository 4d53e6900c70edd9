"""Tracebacks that a launcher quotes below a line that tells whose they are.

torch.multiprocessing.spawn numbers the child (`-- Process 1 terminated with the
following error:`), Ray Train lists the ranks that raised alike (`[Rank 1,2 Error
Snippet]:`, v2 of ray.train, 2.40 and later): that traceback is of each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

CHILD, SNIPPET = "launchers.spawn.raised", "launchers.ray.error_snippet"
LINE = {"source": pl.String(), "line": pl.Int64()}


@needing(CHILD, otherwise={**LINE, "local_rank": pl.Int64()})
def local_ranks(frames: Frames) -> pl.DataFrame:
    """Return `source line local_rank`: the lines of a spawned child's traceback."""
    return _below(frames, CHILD, "local_rank")


@needing(SNIPPET, otherwise={**LINE, "rank": pl.Int64()})
def ranks(frames: Frames) -> pl.DataFrame:
    """Return `source line rank`, a row for each rank that raised a quoted traceback."""
    told = _below(frames, SNIPPET, "ranks")
    each = told.with_columns(pl.col("ranks").str.split(",")).explode("ranks")
    return each.select(*LINE, pl.col("ranks").cast(pl.Int64).alias("rank"))


def _below(frames: Frames, heading: str, column: str) -> pl.DataFrame:
    """Return `source line` and `column` of headings, for the traceback's lines."""
    told, raised = frames.message(heading), frames.message("python.traceback")
    if "span" not in raised.columns:
        rest = tables.without_rows(LINE)
        return rest.with_columns(told[column].clear().alias(column))
    heads = told.select("source", (pl.col("line") + 1).alias("line"), column)
    last = pl.col("line") + pl.col("span").fill_null(0)
    return (
        raised.select("source", "line", "span")
        .join(heads, on=["source", "line"])
        .select("source", pl.int_ranges("line", last + 1).alias("line"), column)
        .explode("line")
        .unique(["source", "line"], keep="last", maintain_order=True)
    )
