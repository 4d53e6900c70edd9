"""Which lines are read of those that every rank prints in each step.

What a step took on one rank tells something only beside what it took on the others, so
the same steps have to be read of all, whichever files they stand in. A line is chosen
by its step, or by its place among its rank's lines where it prints none. All are read
at first, then half as many each time that there are twice as many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import polars as pl

ALL = 512  # steps that are all read; a judgement on who is slow needs fewer
UNTOLD = 8192  # lines that are read of those that tell neither step nor rank
STEPS = (
    r"(?i)\b(?:step|iter|iteration)[\"']?(?:\s{0,2}[:=]\s{0,6}| {1,6})(\d{1,9})\b",
    r"\[ {0,8}(\d{1,9})/ {0,8}\d",
)
RANK = r"(?i)\brank\W{0,3}(\d{1,7})\b"
# A hash chooses, so that steps may be printed at any interval: murmur3's last rounds.
ROUNDS = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))


@dataclass(slots=True)
class Thinning:
    """How many steps, and lines of a rank, one span of a log has had so far."""

    _steps: int = 0
    _lines: Counter[str] = field(default_factory=Counter)
    _untold: int = 0

    def chosen(self, raw: pl.Series) -> pl.Series:
        """Return which of the next lines are read, Boolean."""
        text = pl.col("raw")
        step = (text.str.extract(pattern) for pattern in STEPS)
        told = pl.DataFrame({"raw": raw}).select(
            pl.coalesce(step).cast(pl.UInt64).alias("step"),
            text.str.extract(RANK).alias("rank"),
        )
        order = pl.col("step").rank("dense").cast(pl.UInt64) + self._steps
        known = pl.col("rank").replace_strict(
            dict(self._lines), default=0, return_dtype=pl.UInt64
        )
        place = pl.int_range(1, pl.len() + 1, dtype=pl.UInt64).over("step", "rank")
        own = pl.when(pl.col("rank").is_not_null()).then(known + place)
        key, so_far = pl.coalesce("step", own), pl.coalesce(order, own)
        halved = (so_far / ALL).log(2).floor().clip(-1) + 1
        untold = key.is_null().cum_sum() + self._untold <= UNTOLD
        is_under = _hashed(key) < 2.0 ** (32 - halved)
        mask = pl.when(key.is_null()).then(untold).otherwise(is_under)
        chosen = told.select(mask.alias("chosen")).to_series()
        self._steps += told["step"].drop_nulls().n_unique()
        stepless = told.filter(pl.col("step").is_null())
        self._untold += stepless["rank"].null_count()
        self._lines.update(
            dict(stepless.drop_nulls("rank").group_by("rank").len().iter_rows())
        )
        return chosen


def _hashed(key: pl.Expr) -> pl.Expr:
    """Return a number below 2 ** 32 that looks random, UInt64."""
    for shift, factor in ROUNDS:
        key = ((key ^ (key // 2**shift)) * factor) % 2**32
    return key ^ (key // 2**16)
