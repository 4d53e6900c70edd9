"""Tracebacks below a line that tells whose they are.

A program that catches an exception logs a record above its traceback, with its rank.
torch.multiprocessing.spawn numbers the child (`-- Process 1 terminated with the
following error:`), torch's checkpoints repeat on each rank what others raised
(`Traceback (most recent call last): (RANK 1)`), Ray Train lists the ranks that raised
alike (`[Rank 1,2 Error Snippet]:`, v2 of ray.train, 2.40 and later): that traceback is
of each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import needing

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

CHILD, SNIPPET = "launchers.spawn.raised", "launchers.ray.error_snippet"
LOUD = r"^\W*(?:WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b"  # in front of a record
LEVELS = ("W", "E", "F", "C", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL")
LINE = {"source": pl.String(), "line": pl.Int64()}
KINDS = {"local_rank": pl.Int64(), "ranks": pl.String()}


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


@needing("python.traceback", otherwise={**LINE, "rank": pl.Int64()})
def repeated(frames: Frames) -> pl.DataFrame:
    """Return `source line rank`: the lines of tracebacks that other ranks print, too.

    CheckpointException of `torch/distributed/checkpoint/api.py`, torch 2.0 and later.
    """
    raised = frames.message("python.traceback")
    if "of_rank" not in raised.columns:
        return tables.without_rows({**LINE, "rank": pl.Int64()})
    heads = raised.drop_nulls("of_rank").select("source", "line", rank="of_rank")
    return _lines(raised, heads, "rank")


@needing("python.traceback", otherwise={**LINE, "rank": pl.Int64()})
def logged(frames: Frames) -> pl.DataFrame:
    """Return `source line rank`: tracebacks right below a warning that tells its rank.

    Python's logging prints them so (`exc_info`). Below a record of ordinary progress
    the traceback may be another process's.
    """
    raised = frames.message("python.traceback").filter(pl.col("rank").is_null())
    if raised.is_empty():
        return tables.without_rows({**LINE, "rank": pl.Int64()})
    loud = pl.col("level").is_in(LEVELS) | pl.col("text").str.contains(LOUD)
    above = frames["events"].filter(loud).drop_nulls("rank")
    heads = above.select("source", (pl.col("line") + 1).alias("line"), "rank")
    one = heads.unique().unique(["source", "line"], keep="none")
    return _lines(raised, one, "rank")


def _below(frames: Frames, heading: str, column: str) -> pl.DataFrame:
    """Return `source line` and `column` of headings, for the traceback's lines."""
    told, raised = frames.message(heading), frames.message("python.traceback")
    if "span" not in raised.columns or column not in told.columns:
        return tables.without_rows({**LINE, column: KINDS[column]})
    heads = told.select("source", (pl.col("line") + 1).alias("line"), column)
    return _lines(raised, heads, column)


def _lines(raised: pl.DataFrame, heads: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return `source line` and `column` of all lines of the tracebacks at `heads`."""
    last = pl.col("line") + pl.col("span").fill_null(0)
    if "span" not in raised.columns:
        raised = raised.with_columns(span=pl.lit(None, pl.Int64))
    return (
        raised.select("source", "line", "span")
        .join(heads, on=["source", "line"])
        .select("source", pl.int_ranges("line", last + 1).alias("line"), column)
        .explode("line")
        .unique(["source", "line"], keep="last", maintain_order=True)
    )
