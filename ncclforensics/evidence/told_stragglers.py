"""Who is slow by the word of a program that measures it: NVRx, Megatron's detector.

NVRx compares the times of kernels between ranks, and warns of ranks below its limit;
NeMo prints its scores, the worst and the best.
Megatron's StragglerDetector tells the quickest and the slowest rank of each interval
alone, so that only one that is always the slowest says something.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.timing.own_time import CHANCE
from ncclforensics.evidence import common
from ncclforensics.model.folding import count

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

WARNED, REPORTED = "launchers.nvrx.stragglers", "launchers.megatron.straggler"
SCORED = "launchers.nvrx.scores"
LEAST = 8  # reports of all ranks
LOOKS = 64  # reports of the slowest, of which more prove no more
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
    """Return the ranks whose GPUs score far below all others in most reports.

    They are those on the far side of the widest gap between the scores that are told:
    one rank, or several of one host.
    """
    lines = frames.message(SCORED)
    if "score_pct" not in lines.columns:
        return None
    report, score = ("source", "line"), pl.col("score_pct")
    scores = lines.unique([*report, "of_rank"], maintain_order=True)
    many = scores.select(report).unique().height
    far = (
        scores.sort(*report, "score_pct", "of_rank")
        .with_columns(quicker=score.shift(-1).over(report))
        .with_columns(gap=pl.col("quicker") - score)
        .with_columns(
            ends=score.sort_by("gap", nulls_last=False).last().over(report),
            then=pl.col("quicker").sort_by("gap", nulls_last=False).last().over(report),
        )
        .filter((score <= pl.col("ends")) & (score <= (1 - SLOWER) * pl.col("then")))
    )
    times = far.group_by("of_rank").len().filter(pl.col("len") >= MOSTLY * many)
    ranks = tuple(times["of_rank"].sort().to_list())
    is_one = len(ranks) == 1
    if many < 2 or not (is_one or len(common.hosts_of(frames, ranks)) == 1):
        return None
    own = far.filter(pl.col("of_rank").is_in(ranks))
    mine, then = (float(str(own[c].median())) / 100 for c in ("score_pct", "then"))
    how = (
        f"in {int(str(times['len'].min()))} of {count(many, 'report')} of NVRx "
        f"{'its GPU is' if is_one else 'their GPUs are'} the slowest of all, with a "
        f"score of {mine:.2f} beside {then:.2f} of the next (median)"
    )
    text = pl.format("Rank={} … Score={}", "of_rank", score / 100)
    at = own.with_columns(pl.col("line") + pl.col("below"), text=text)
    return Told(ranks, how, many >= LEAST, at)


def _slowest(frames: Frames) -> Told | None:
    lines = frames.message(REPORTED)
    if "slowest" not in lines.columns or lines.is_empty():
        return None
    rank, many = lines["slowest"].value_counts().sort("count", "slowest").row(-1)
    own = lines.filter(pl.col("slowest") == rank)
    share = float(str((1 - own["least_ms"] / own["most_ms"]).median()))
    if many < MOSTLY * lines.height or share < SLOWER:
        return None
    known = {*lines["slowest"], *lines["fastest"], *world.ranks(frames)}
    if _chance(many, lines.height, max(known) + 1) > CHANCE:
        return None
    how = (
        f"in {many} of {lines.height} reports of Megatron it is the slowest of all, "
        f"at work {1 / (1 - share):.2f} times as long as the quickest (median)"
    )
    return Told((rank,), how, False, own)


def _chance(many: int, of: int, ranks: int) -> float:
    """Return how likely any rank is the slowest so often, if all are alike."""
    looks = min(of, LOOKS)
    least = range(many * looks // of, looks + 1)
    ways = sum(comb(looks, k) * pow(ranks - 1, looks - k) for k in least)
    return min(1.0, float(ranks * (ways / pow(ranks, looks))))
