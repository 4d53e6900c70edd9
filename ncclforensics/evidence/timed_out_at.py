"""Where in the user's code each rank waited until a timeout of Gloo's was raised.

Gloo's calls raise where they are made, so the traceback above such a line tells. Where
every rank of the job timed out nobody was absent: they waited for each other, in calls
at different places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

TIMEOUT = "c10d.gloo.timeout"
# a message waits for one rank, in the order of a pipeline: its place tells nothing
MESSAGE = "python.frame.message"
PLACE = ["file", "file_line"]
OTHERS = 2  # at the least, beside the one that is apart


def sites(frames: Frames) -> pl.DataFrame:
    """Return the first timeout of each rank, with `file`, `file_line` and `function`.

    The columns of the timeouts are kept. `site` is the place in short.
    """
    raised = frames.message("python.traceback")
    timeouts = frames.message(TIMEOUT).drop_nulls("rank").sort("line")
    place = [*PLACE, "function"]
    if not set(place) <= set(raised.columns):
        return timeouts.clear().with_columns(
            *(pl.lit(None, pl.String).alias(c) for c in (*place, "site"))
        )
    short = common.sentence(
        pl.col("file").str.extract(r"([^/]+)$"), ":", pl.col("file_line")
    )
    return (
        timeouts.join_asof(
            raised.sort("line").select("source", "rank", "line", *place),
            on="line",
            by=["source", "rank"],
            check_sortedness=False,
        )
        .drop_nulls("file")
        .unique("rank", keep="first", maintain_order=True)
        .with_columns(short.alias("site"))
    )


def apart(frames: Frames) -> pl.DataFrame:
    """Return the sites of all ranks where one waited apart from all others, it first.

    Empty where a rank of the job is not among them, or where groups and messages give
    ranks a reason to wait at several places.
    """
    seen = sites(frames)
    ranks = set(common.numbers(seen["rank"]))
    known = set(common.numbers(frames["ranks"]["rank"]))
    is_whole = known == ranks == set(range(len(ranks)))
    parted = frames["groups"].height > 1 or frames.message(MESSAGE).height
    if not is_whole or parted or seen.select(PLACE).unique().height != 2:
        return seen.clear()
    many = seen.with_columns(pl.len().over(PLACE).alias("many")).sort(
        "many", maintain_order=True
    )
    alone = many["many"].to_list()[:2] == [1, len(ranks) - 1]
    return many.drop("many") if alone and len(ranks) > OTHERS else seen.clear()
