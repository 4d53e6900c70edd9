"""A heat map: how much longer each rank works than its peers, over time.

Rows are ranks, or hosts where ranks are many: a host shows its slowest rank. Cells are
levels, so that a picture of a thousand ranks stays small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from msgspec import Struct

from ncclforensics.model.words import percent
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames
    from ncclforensics.report.contract import Report

MOST_ROWS, MOST_COLUMNS, NAME = 24, 32, 60
LEVELS = (0.02, 0.07, 0.15, 0.3)  # shares of the time, from which on a level counts


class LateRanks(Struct, frozen=True):
    """Rows of (name, level of each stretch of time); `more_rows` are left out."""

    rows: tuple[tuple[str, tuple[int, ...]], ...]
    more_rows: int = 0


def legend() -> list[tuple[str, str, str]]:
    """Return the digit, word and meaning of each level."""
    words = ("a little", "slow", "slower", "slowest")
    return [
        (str(n), word, f"at work {percent(least)} of the time longer, or more")
        for n, (word, least) in enumerate(zip(words, LEVELS, strict=True), 1)
    ]


def late_ranks(report: Report, frames: Frames) -> LateRanks | None:
    """Return the heat map, the slowest rows on top; None if no rank is slow."""
    verdict = report.verdict
    is_slow = verdict is not None and verdict.slug == "slow-rank"
    told = frames["lateness"]
    if not (is_slow or report.fastest_gain) or told.is_empty():
        return None
    many = int(str(told["slice"].max())) + 1
    column = pl.col("slice") * min(many, MOST_COLUMNS) // many
    hosts = frames["ranks"].select("rank", "host").unique("rank", keep="first")
    cells = (
        told.join(hosts, on="rank", how="left")
        .group_by("rank", "host", column)
        .agg(pl.col("share").mean())
    )
    rank = pl.concat_str(pl.lit("rank "), pl.col("rank").cast(pl.String))
    named = pl.concat_str(rank, pl.col("host").fill_null(""), separator=" ")
    fold = told["rank"].n_unique() > MOST_ROWS and hosts["host"].n_unique() > 1
    name = pl.coalesce("host", rank) if fold else named
    over = [pl.col("share").max() >= least for least in LEVELS]
    level = pl.sum_horizontal(one.cast(pl.Int64) for one in over)
    rows = (
        cells.group_by(name.alias("name"), "slice")
        .agg(level.alias("level"), pl.col("share").max())
        .sort("slice")
        .group_by("name")
        .agg("level", pl.col("share").mean())
        .sort("share", "name", descending=[True, False])
    )
    shown = rows.head(MOST_ROWS).select("name", "level").iter_rows()
    return LateRanks(
        tuple((line(str(name), NAME), tuple(levels)) for name, levels in shown),
        max(rows.height - MOST_ROWS, 0),
    )
