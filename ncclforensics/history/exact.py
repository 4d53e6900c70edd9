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


def marked(
    counts: Mapping[str, int], exposure: Mapping[str, float], many: int = 0
) -> dict[str, Mark]:
    """Return the mark of everybody with events, the most surprising first.

    `exposure` is the hours of all, also of those without events; who has none is left
    out, with its events. `many` is how many are compared, where that is more.
    """
    known = {k: n for k, n in counts.items() if n > 0 and exposure.get(k, 0) > 0}
    total, hours = sum(known.values()), math.fsum(exposure.values())
    compared = max(many, sum(e > 0 for e in exposure.values()))
    shares = np.array([exposure[key] for key in known]) / hours if known else NOBODY
    tails = upper_tails(np.array([*known.values()]), total, shares)
    marks: dict[str, Mark] = {}
    goes_on = compared > 1
    for tail, key in sorted(zip(tails.tolist(), known, strict=True)):
        share = exposure[key] / hours
        if goes_on:
            tail = upper_tail(known[key], total, share)
        corrected = min(1.0, tail * compared)
        goes_on = goes_on and corrected < ALPHA
        marks[key] = Mark(total * share, tail, corrected, goes_on)
        if goes_on:
            total -= known[key]
            hours -= exposure[key]
            compared -= 1
    return marks
