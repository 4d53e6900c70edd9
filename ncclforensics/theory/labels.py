"""Labels of calls: what tells one call of a program from another.

A label forgets who makes the call: it holds what the group is for, the operation, how
far off the other end of a message is, sizes where they must agree, dtypes, and the
place in the code where it is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.progress import UNEVEN, grouped
from ncclforensics.model.tables import begun, done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames

FEW = 1 / 8  # of the ranks whose dumps may lack stacks, and theirs still count
KEPT = (
    *("rank", "group", "pg", "pg_desc", "seq", "p2p_seq", "record_id", "op", "is_p2p"),
    *("src", "dst", "stack", "state", "t", "t_started", "source", "line"),
)


def traces(frames: Frames, ranks: Iterable[int]) -> pl.DataFrame:
    """Return the calls of some ranks in order, with `sized` and `bare` labels.

    Columns KEPT, `over` (ended, or made before one that did), `place` (from 0 on each
    rank), `ended`, `began`. A rank whose dump alone has no stacks is left out where
    stacks tell calls apart; where many have none, stacks are not part of a label.
    """
    even = pl.when(~pl.col("op").is_in(UNEVEN)).then("in_sizes").hash(seed=0)
    made = (
        frames.scan("collectives")
        .filter(pl.col("rank").is_in(list(ranks)))
        .with_columns(
            even.alias("sizes"),
            pl.col("in_dtypes").hash(seed=0).alias("dtypes"),
            done().alias("ended"),
            begun().alias("began"),
            pl.col("is_p2p").fill_null(False),
        )
        .select(
            *(c for c in KEPT if c != "group"),
            *("pg_id", "sizes", "dtypes", "ended", "began"),
        )
        .collect()
    )
    made = grouped(made, frames["group_names"]).sort("rank", "record_id")
    made, site = _sites(made)
    number = pl.coalesce("pg_id", "pg").cast(pl.Int64, strict=False)
    # groups of one description are told apart by the order of their creation
    ordinal = number.rank("dense").over("rank", "pg_desc").fill_null(0)
    what: list[str | pl.Expr] = [
        *("pg_desc", "op", "dtypes"),
        ordinal.alias("ordinal"),
        (pl.col("dst") - pl.col("src")).alias("off"),
        site.alias("site"),
    ]
    last = pl.col("record_id").filter("ended").max().over("rank")
    return made.with_columns(
        pl.struct(*what, "sizes").hash(seed=1).alias("sized"),
        pl.struct(*what).hash(seed=1).alias("bare"),
        (pl.col("ended") | (pl.col("is_p2p") & (pl.col("record_id") < last)))
        .fill_null(False)
        .alias("over"),
        pl.int_range(pl.len()).over("rank").alias("place"),
    )


def _sites(made: pl.DataFrame) -> tuple[pl.DataFrame, pl.Expr]:
    """Return the calls whose places compare, and what a place is."""
    bare = made.group_by("rank").agg(pl.col("stack").is_null().all().alias("bare"))
    without = bare.filter("bare")["rank"]
    if without.len() > FEW * bare.height:
        return made, pl.lit(0, pl.UInt64)
    return made.filter(~pl.col("rank").is_in(without.implode())), pl.col("stack")
