"""Which ranks were at something else when calls timed out, by their last lines.

Ranks of one program print alike up to the call that they all wait in. The one that they
wait for was at something else, and its last line says so; or it still logged its work
when all others had given up. Of a program that prints nothing in its loop, or on rank 0
alone, last lines prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.frames import remembered
from ncclforensics.model.last_words import GAVE_UP, LAST, USUAL, shape
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

CLOCKS = pl.duration(seconds=1)  # by which the clocks of two hosts may differ
FEWEST = 3  # ranks that are compared
MOST = 2 / 3  # of the ranks say the same
FEW = 1 / 4  # of the ranks, but at least one, are the odd ones at most


@remembered
def odd(frames: Frames) -> frozenset[int]:
    """Return the few ranks whose last line is unlike the one that most ranks repeat.

    Each of them repeated that line as well, before.
    """
    said = frames["events"].filter(pl.col("message").is_in([LAST, USUAL]))
    if said.is_empty():
        return frozenset()
    # stdout and stderr of a rank are compared with those of the others
    stream = pl.col("source").str.replace_all(r"\d+", "#").alias("stream")
    told = said.select("message", "rank", stream, shape(pl.col("text")).alias("said"))
    last = told.filter(pl.col("message") == LAST).drop("message").unique()
    many = pl.col("rank").n_unique()
    last = last.with_columns(
        many.over("stream", "said").alias("alike"), many.over("stream").alias("all")
    ).filter(pl.col("all") >= FEWEST)
    is_usual = pl.col("alike") >= MOST * pl.col("all")
    repeated = told.filter(pl.col("message") == USUAL).drop("message").unique()
    usual = last.filter(is_usual).select("stream", "said").unique()
    known = repeated.join(usual, on=["stream", "said"]).select("stream", "rank")
    others = last.filter(~is_usual).join(known, on=["stream", "rank"], how="semi")
    few = others.filter(many.over("stream") <= (FEW * pl.col("all")).clip(1))
    return frozenset(few["rank"].drop_nulls())


def at_work(frames: Frames, timed_out: frozenset[int]) -> frozenset[int]:
    """Return the ranks that logged their work after all of `timed_out` had given up.

    A rank that waits logs no work.
    """
    said = frames["events"].select("message", "rank", "t")
    gave_up = said.filter(
        (pl.col("message") == GAVE_UP) & pl.col("rank").is_in(list(timed_out))
    )
    after = pl.col("t") > pl.lit(gave_up["t"].max(), TIME) + CLOCKS
    last = said.filter((pl.col("message") == LAST) & after)
    return frozenset(last["rank"].drop_nulls())
