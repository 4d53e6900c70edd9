"""Ranks that say who they are as they begin to meet, in a log that ends there.

Lightning prints a line per process before `init_process_group`, and its rank 0 one more
when all have met. Where the last line of a log is still of the first kind, its
processes wait for ranks that no line announces; where two processes claim each rank,
whatever comes behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import STEPS

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

ANNOUNCED = "launchers.lightning.rank"
MET = "launchers.lightning.registered"


@dataclass(frozen=True, slots=True)
class Announced:
    """The lines of a log in which `ranks` of a world of `size` announce themselves.

    `twice` says that two processes claim each rank, and neither group came after the
    other, as that of a restart does.
    """

    lines: pl.DataFrame
    ranks: tuple[int, ...]
    size: int
    twice: bool


def waiting(frames: Frames) -> Announced | None:
    """Return the ranks that wait at the end of the only such log; None if all came."""
    lines = frames.message(ANNOUNCED)
    if not {"rank", "world_size"} <= {*lines.columns} or lines["source"].n_unique() > 1:
        return None
    lines = lines.drop_nulls(["rank", "world_size"])
    if lines.is_empty() or frames.message(MET, *STEPS).height:
        return None
    ranks = tuple(lines["rank"].unique().sort())
    size = max(lines["world_size"])
    if len(ranks) >= size:
        return None
    nth = lines.select("line", nth=pl.col("rank").cum_count().over("rank"))
    first, again = (nth.filter(pl.col("nth") == n)["line"] for n in (1, 2))
    twice = nth.height == 2 * len(ranks) == 2 * again.len()
    twice = twice and min(again) < max(first)
    log = frames["sources"].filter(pl.col("source").is_in(lines["source"].implode()))
    ends = log["lines"].to_list() == [max(lines["line"])]
    return Announced(lines, ranks, size, twice) if twice or ends else None
