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

import numpy as np
import numpy.typing as npt

from ncclforensics.history.limits import ALPHA

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NEGLIGIBLE = 1e-18  # of the sum, where the terms only get smaller


@dataclass(frozen=True, slots=True)
class Marks:
    """How surprising each count is: expected events, tail, and tail times all compared.

    Arrays of one shape; NaN for who has no events or no exposure. `stands_out` is
    whether the corrected tail is below ALPHA, as for all before it.
    """

    expected: Floats
    tail: Floats
    corrected: Floats
    stands_out: Bools


def upper_tails(counts: Counts, total: int, shares: Floats) -> Floats:
    """Return the probability of at least each count of `total` events at its share.

    The two arrays are of one shape; shares lie between 0 and 1.
    """
    k = np.clip(counts, 0, total)
    is_high = k > total * shares  # else the sum over what lies below is the shorter one
    start = np.where(is_high, k, np.maximum(k - 1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        choices = _log_factorials(np.array([total])) - _log_factorials(start)
        choices -= _log_factorials(total - start)
        powers = start * np.log(shares) + (total - start) * np.log1p(-shares)
        first = np.exp(choices + powers)
        # to go down in events is to go up in the others, at the reciprocal odds
        odds = np.where(is_high, shares, 1 - shares) / np.where(
            is_high, 1 - shares, shares
        )
        at = np.where(is_high, start, total - start).astype(float)
        term, whole = np.ones(k.shape), np.ones(k.shape)
        while (term > NEGLIGIBLE * whole).any():
            term *= (total - at) / (at + 1) * odds
            at += 1
            whole += term
    tails = np.where(is_high, first * whole, 1 - first * whole)
    tails = np.where((k <= 0) | (shares >= 1), 1.0, tails)
    found: Floats = np.clip(tails, 0.0, 1.0)
    return found


def _log_factorials(numbers: Counts) -> Floats:
    return np.array([math.lgamma(number + 1) for number in numbers.tolist()])


def marked(counts: Counts, exposure: Floats, whole: float, compared: int) -> Marks:
    """Return how surprising the counts are, and who stands out.

    `exposure` is the hours or chances of each, `whole` of all that are `compared`, also
    of those without events. Who has none is left out, with its events.
    """
    expected, tail, corrected = (np.full(counts.shape, np.nan) for _ in range(3))
    out = np.zeros(counts.shape, bool)
    known = np.flatnonzero((counts > 0) & (exposure > 0))
    total = int(counts[known].sum())

    def hold(some: Counts) -> None:
        """Hold some against what is left."""
        shares = exposure[some] / whole
        expected[some] = total * shares
        tail[some] = upper_tails(counts[some], total, shares)
        corrected[some] = np.minimum(1.0, tail[some] * compared)

    hold(known)
    for one in known[np.argsort(tail[known], kind="stable")]:
        if compared < 2:
            break
        hold(np.array([one]))
        if corrected[one] >= ALPHA:
            break
        out[one] = True
        total -= int(counts[one])
        whole -= exposure[one]
        compared -= 1
    hold(known[~out[known]])
    return Marks(expected, tail, corrected, out)
