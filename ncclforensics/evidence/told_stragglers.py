"""Who is slow by the word of a program that measures it: NVRx, Megatron's detector.

NVRx compares the times of kernels between ranks, and warns of ranks below its limit.
Megatron's StragglerDetector tells the quickest and the slowest rank of each interval
alone, so that only one that is always the slowest says something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

WARNED, REPORTED = "launchers.nvrx.stragglers", "launchers.megatron.straggler"
LEAST = 8  # reports
MOSTLY = 0.9  # share of the reports in which one rank is the slowest
SLOWER = 0.1  # share of the slowest rank's time by which the quickest is quicker


@dataclass(frozen=True, slots=True)
class Told:
    """The slow `ranks`, in words how slow, whether that is sure, and the lines."""

    ranks: tuple[int, ...]
    how: str
    sure: bool
    lines: pl.DataFrame


def told(frames: Frames) -> Told | None:
    """Return whom a program reports as slow again and again, or None."""
    return _warned(frames) or _slowest(frames)


def _warned(frames: Frames) -> Told | None:
    lines = frames.message(WARNED)
    if "affected" not in lines.columns:
        return None
    # `{StragglerId(rank=3, node='gpu0001'), …}`, or `[3, 5]`
    ids = pl.col("affected").str.extract_all(r"rank=\d+")
    bare = pl.col("affected").str.extract_all(r"\b\d+\b")
    numbers = pl.when(ids.list.len() > 0).then(ids).otherwise(bare)
    each = lines.select("source", "line", number=numbers).explode("number").drop_nulls()
    each = each.select(
        "source", "line", pl.col("number").str.extract(r"(\d+)$").cast(pl.Int64)
    )
    if each.is_empty():
        return None
    times = each.group_by("number").len().sort("number")
    again = times.filter(2 * pl.col("len") > lines.height)
    if again.is_empty():
        return None
    ranks = tuple(again["number"].to_list())
    how = f"in {count(lines.height, 'report')} NVRx warns of that"
    return Told(ranks, how, lines.height > 1, lines)


def _slowest(frames: Frames) -> Told | None:
    lines = frames.message(REPORTED)
    if "slowest" not in lines.columns or lines.height < LEAST:
        return None
    rank, many = lines["slowest"].value_counts().sort("count", "slowest").row(-1)
    own = lines.filter(pl.col("slowest") == rank)
    share = float(str((1 - own["least_ms"] / own["most_ms"]).median()))
    if many < MOSTLY * lines.height or share < SLOWER:
        return None
    how = (
        f"in {many} of {lines.height} reports of Megatron it is the slowest of all, "
        f"at work {1 / (1 - share):.2f} times as long as the quickest (median)"
    )
    return Told((rank,), how, False, own)
