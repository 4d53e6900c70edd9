"""The rank of a file from the number in its name, if the files beside it confirm it.

A launcher may number its output files by task, `train-5071_3.out`, or by something
else. The number is the rank if it is that for every such file whose own lines tell a
rank, and at least two do. So a rank that prints nothing of itself is known by its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

AGREE = 2  # files whose lines confirm the number
NUMBERS = 4  # of a path, from its end, that are tried


def owners(frames: Frames, claims: pl.DataFrame) -> pl.DataFrame:
    """Return `source rank` of files whose number is their rank, but for dumps.

    `claims` have `source` and `rank`. If several numbers of a path are possible, the
    last one counts.
    """
    told = claims.drop_nulls(["source", "rank"])
    told = told.group_by("source").agg(pl.col("rank").unique().alias("told"))
    logs = frames["sources"].filter(pl.col("kind").is_in(["log", "empty", "unknown"]))
    files = logs.select("source").unique().join(told, on="source", how="left")
    found = [_numbered(files, after) for after in range(NUMBERS)]
    return pl.concat(found).unique("source", keep="first", maintain_order=True)


def _numbered(files: pl.DataFrame, after: int) -> pl.DataFrame:
    """Return `source rank` by the number that `after` other numbers follow."""
    parts = rf"^(|.*\D)(\d{{1,6}})((?:\D+\d+){{{after}}}\D*)$"
    named = files.with_columns(
        pl.col("source").str.replace(parts, "$1\n$3").alias("alike"),
        pl.col("source").str.extract(parts, 2).cast(pl.Int64).alias("rank"),
    ).drop_nulls("rank")
    is_rank = (pl.col("told").list.len() == 1) & (
        pl.col("told").list.first() == pl.col("rank")
    )
    confirmed = is_rank.fill_null(True).all().over("alike")
    many = is_rank.fill_null(False).sum().over("alike")
    alone = pl.len().over("alike", "rank") == 1
    unknown = pl.col("told").is_null()
    return named.filter(confirmed & (many >= AGREE) & alone & unknown).select(
        "source", "rank"
    )
