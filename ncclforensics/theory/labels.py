"""Labels of calls: hashes that distinguish the calls of a program.

A label does not depend on the rank that makes the call. It covers the description of
the group, the operation, the partner of a message (by its distance, or by its number),
sizes where they must agree, dtypes, and the call site where it is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces.progress import UNEVEN, grouped
from ncclforensics.model.tables import begun, done

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames

FEW = 1 / 8  # of the ranks; ranks without stacks are left out if they are no more
KEPT = (
    *("rank", "group", "pg", "pg_desc", "seq", "p2p_seq", "record_id", "op", "is_p2p"),
    *("src", "dst", "stack", "state", "t", "t_started", "source", "line"),
)


def traces(frames: Frames, ranks: Iterable[int]) -> pl.DataFrame:
    """Return the calls of some ranks in order, with their labels.

    Columns: `KEPT`; the labels `sized`, `bare` (without sizes) and `siteless` (sized,
    without the call site), u64; `over`
    (ended, or a message made before a call that ended); `place` (position on the rank,
    from 0); `ended`; `began`. Ranks without any stacks are left out if they are few; if
    they are many, stacks are not part of the labels.
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
    # groups with one description are distinguished by the order of their creation
    ordinal = number.rank("dense").over("rank", "pg_desc").fill_null(0)
    plain: list[str | pl.Expr] = [
        *("pg_desc", "op", "dtypes"),
        ordinal.alias("ordinal"),
        _partner().alias("partner"),
    ]
    what = [*plain, site.alias("site")]
    last = pl.col("record_id").filter("ended").max().over("rank")
    return made.with_columns(
        pl.struct(*what, "sizes").hash(seed=1).alias("sized"),
        pl.struct(*what).hash(seed=1).alias("bare"),
        pl.struct(*plain, "sizes").hash(seed=1).alias("siteless"),
        (pl.col("ended") | (pl.col("is_p2p") & (pl.col("record_id") < last)))
        .fill_null(False)
        .alias("over"),
        pl.int_range(pl.len()).over("rank").alias("place"),
    )


def _partner() -> pl.Expr:
    """Return what tells the partner of a message, alike for all ranks of a role.

    Along a pipeline it is the distance to it. Of one rank that sends to many, or takes
    from many, each is at a distance of its own: then it is the partner's number.
    """
    off = pl.col("dst") - pl.col("src")
    other = pl.when(pl.col("op") == "recv").then("src").otherwise("dst")
    kind = ("pg_desc", "op")
    is_one = other.n_unique().over(kind) < off.n_unique().over(kind)
    return pl.when(is_one).then(other).otherwise(off)


def _sites(made: pl.DataFrame) -> tuple[pl.DataFrame, pl.Expr]:
    """Return the calls whose call sites can be compared, and the call site column."""
    bare = made.group_by("rank").agg(pl.col("stack").is_null().all().alias("bare"))
    without = bare.filter("bare")["rank"]
    if without.len() > FEW * bare.height:
        return made, pl.lit(0, pl.UInt64)
    return made.filter(~pl.col("rank").is_in(without.implode())), pl.col("stack")
