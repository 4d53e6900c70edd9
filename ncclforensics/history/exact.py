"""Who has more events than its share, by a test that is right for small counts.

Given n events in all, and a node with the share p of all node hours, the number that
falls on the node is binomial (n, p) if no node differs: the conditional test of Poisson
rates by Przyborowski and Wilenski, Biometrika 31 (1940). Its upper tail is summed
exactly; a normal approximation would accuse nodes with two events.

Of m nodes the one with the smallest tail stands out if m times it is below ALPHA. It is
then set aside with its hours, so that it hides no other, and the rest is tested again
among m - 1, until none stands out (the steps of Holm, Scand. J. Statist. 6, 1979).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ncclforensics.history.limits import ALPHA

if TYPE_CHECKING:
    from collections.abc import Mapping

Floats = npt.NDArray[np.float64]
NOBODY: Floats = np.zeros(0)
NEGLIGIBLE = 1e-18  # of the sum, where the terms only get smaller


@dataclass(frozen=True, slots=True)
class Mark:
    """How surprising a count is: expected events, tail, and tail times nodes.

    `stands_out` is whether the corrected tail is below ALPHA, as for all before it.
    """

    expected: float
    tail: float
    corrected: float
    stands_out: bool


def upper_tails(counts: Floats, total: int, shares: Floats) -> Floats:
    """Return the probability of at least each count of `total` events at its share.

    The two arrays are of one shape; shares lie between 0 and 1.
    """
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    k = np.clip(counts, 0, total).astype(np.int64)
    is_high = k > total * shares  # else the sum over what lies below is the shorter one
    start = np.where(is_high, k, np.maximum(k - 1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        choices = logs[total] - logs[start] - logs[total - start]
        powers = start * np.log(shares) + (total - start) * np.log1p(-shares)
        first = np.exp(choices + powers)
        odds = shares / (1 - shares)
        at, term, whole = start.astype(float), np.ones(k.shape), np.ones(k.shape)
        while (term > NEGLIGIBLE * whole).any():
            up = (total - at) / (at + 1) * odds
            down = at / (total - at + 1) / odds
            term = term * np.where(is_high, up, down)
            at += np.where(is_high, 1, -1)
            whole += term
    tails = np.where(is_high, first * whole, 1 - first * whole)
    tails = np.where((k <= 0) | (shares >= 1), 1.0, tails)
    found: Floats = np.clip(tails, 0.0, 1.0)
    return found


def upper_tail(count: int, total: int, share: float) -> float:
    """Return the probability of at least `count` of `total` events at a share."""
    return float(upper_tails(np.array([count]), total, np.array([share]))[0])


@dataclass(frozen=True, slots=True)
class Marks:
    """Those who stand out, `out`, the most surprising first, and what the rest is of.

    `total` events and `hours` are left without them, and `compared` to be compared.
    """

    counts: Mapping[str, int]
    exposure: Mapping[str, float]
    out: dict[str, Mark]
    total: int
    hours: float
    compared: int

    def of(self, key: str) -> Mark | None:
        """Return a mark; None without events, or if its hours are not known."""
        if key in self.out or not _is_known(key, self.counts, self.exposure):
            return self.out.get(key)
        share = self.exposure[key] / self.hours
        tail = upper_tail(self.counts[key], self.total, share)
        return Mark(self.total * share, tail, min(1.0, tail * self.compared), False)


def marked(
    counts: Mapping[str, int], exposure: Mapping[str, float], many: int = 0
) -> Marks:
    """Return who stands out.

    `exposure` is the hours of all, also of those without events; who has none is left
    out, with its events. `many` is how many are compared, where that is more.
    """
    known = [key for key in counts if _is_known(key, counts, exposure)]
    told = np.array([counts[key] for key in known])
    total, hours = int(told.sum()), math.fsum(exposure.values())
    compared = max(many, sum(e > 0 for e in exposure.values()))
    shares = np.array([exposure[key] for key in known]) / hours if known else NOBODY
    tails = upper_tails(told, total, shares)
    left = list(zip(tails.tolist(), known, strict=True))
    heapq.heapify(left)  # few are taken out of many thousands
    out: dict[str, Mark] = {}
    while left and compared > 1:
        _, key = heapq.heappop(left)
        share = exposure[key] / hours
        tail = upper_tail(counts[key], total, share)
        corrected = min(1.0, tail * compared)
        if corrected >= ALPHA:
            break
        out[key] = Mark(total * share, tail, corrected, True)
        total -= counts[key]
        hours -= exposure[key]
        compared -= 1
    return Marks(counts, exposure, out, total, hours, compared)


def _is_known(
    key: str, counts: Mapping[str, int], exposure: Mapping[str, float]
) -> bool:
    return counts.get(key, 0) > 0 and exposure.get(key, 0) > 0
