"""Which lines are read of those that every rank prints in each step.

What a step took on one rank tells something only beside what it took on the others, so
the same steps have to be read of all, whichever files they stand in. A line is chosen
by its step, or by its place among its rank's lines where it prints none. All are read
at first, then half as many each time that there are twice as many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.parsers.logs import search_terms

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.ended_texts import Flags, Keys, Numbers

UNTOLD = 8192  # lines that are read of those that tell neither step nor rank
STEPS = (
    r"(?i)\b(?:step|iter|iteration)[\"']?(?:\s{0,2}[:=]\s{0,6}| {1,6})(\d{1,9})\b",
    r"\[ {0,8}(\d{1,9})/ {0,8}\d",
)
RANK = r"(?i)\brank\W{0,3}(\d{1,7})\b"
# A hash chooses, so that steps may be printed at any interval: murmur3's last rounds.
ROUNDS = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
WHOLE = np.uint64(2**32 - 1)


@dataclass(slots=True)
class Thinning:
    """How many steps, and lines of a rank, one span of a log has had so far."""

    _steps: int = 0
    _lines: Counter[str] = field(default_factory=Counter)
    _untold: int = 0

    def chosen(self, raw: pl.Series) -> pl.Series:
        """Return which of the next lines are read, Boolean."""
        found = np.zeros(raw.len(), np.bool_)
        step = pl.coalesce(raw.str.extract(pattern) for pattern in STEPS)
        steps = pl.select(step.cast(pl.UInt64)).to_series()
        is_step = steps.is_not_null().to_numpy()
        told = steps.drop_nulls().to_numpy()
        known, order = np.unique(told, return_inverse=True)
        found[is_step] = _is_under(told, order + 1 + self._steps)
        self._steps += known.size
        if not is_step.all():
            found[~is_step] = self._of_ranks(raw.filter(steps.is_null()))
        return pl.Series(found)

    def _of_ranks(self, raw: pl.Series) -> Flags:
        """Return which of the next lines without a step are read."""
        ranks = raw.str.extract(RANK)
        found = np.zeros(ranks.len(), np.bool_)
        for rank in ranks.unique(maintain_order=True):
            is_own = ranks.eq_missing(rank).to_numpy()
            many = int(is_own.sum())
            if rank is None:
                found[is_own] = np.arange(many) < UNTOLD - self._untold
                self._untold += many
            else:
                place = np.arange(1, many + 1, dtype=np.uint64) + self._lines[rank]
                found[is_own] = _is_under(place, place)
                self._lines[rank] += many
        return found


def _is_under(keys: Keys, so_far: Keys | Numbers) -> Flags:
    """Return which keys are read where so many steps were told so far."""
    halved = np.floor(np.log2(so_far / search_terms.ALL_STEPS)).clip(-1) + 1
    return _hashed(keys) < 2.0 ** (32 - halved)


def _hashed(keys: Keys) -> Keys:
    """Return numbers below 2 ** 32 that look random, UInt64."""
    for shift, factor in ROUNDS:
        keys = ((keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)) & WHOLE
    return keys ^ (keys >> np.uint64(16))
