"""Who is slow by the word of a program that measures it: NVRx, Megatron's detector.

NVRx compares the times of kernels between ranks, and warns of ranks below its limit;
NeMo prints its scores, the worst and the best.
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
SCORED = "launchers.nvrx.scores"
LEAST = 8  # reports
MOSTLY = 0.9  # share of the reports in which one rank is the slowest
SLOWER = 0.1  # share of the slowest rank's time by which another one is quicker


@dataclass(frozen=True, slots=True)
class Told:
    """The slow `ranks`, in words how slow, whether that is sure, and the lines."""

    ranks: tuple[int, ...]
    how: str
    sure: bool
    lines: pl.DataFrame


def told(frames: Frames) -> Told | None:
    """Return whom a program reports as slow again and again, or None."""
    return _warned(frames) or _scored(frames) or _slowest(frames)


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


def _scored(frames: Frames) -> Told | None:
    """Return the rank whose GPU has the worst score in most reports, by far."""
    lines = frames.message(SCORED)
    if "score_pct" not in lines.columns:
        return None
    report = ("source", "line")
    scores = lines.unique([*report, "of_rank"], maintain_order=True).sort(
        *report, "score_pct", "of_rank"
    )
    told = (
        scores.group_by(report, maintain_order=True)
        .agg(
            pl.col("of_rank", "score_pct", "below").first(),
            pl.col("score_pct").get(1, null_on_oob=True).alias("next"),
        )
        .drop_nulls()
        .filter(pl.col("score_pct") <= (1 - SLOWER) * pl.col("next"))
    )
    many = scores.select(report).unique().height
    if told.is_empty():
        return None
    rank, worst = told["of_rank"].value_counts().sort("count", "of_rank").row(-1)
    if many < 2 or worst < MOSTLY * many:
        return None
    own = told.filter(pl.col("of_rank") == rank)
    score, then = (float(str(own[c].median())) / 100 for c in ("score_pct", "next"))
    how = (
        f"in {worst} of {count(many, 'report')} of NVRx its GPU is the slowest of all, "
        f"with a score of {score:.2f} beside {then:.2f} of the next (median)"
    )
    text = pl.format("Rank={} … Score={}", "of_rank", pl.col("score_pct") / 100)
    at = own.with_columns(pl.col("line") + pl.col("below"), text=text)
    return Told((rank,), how, many >= LEAST, at)


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
