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

from ncclforensics.history.limits import ALPHA

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def upper_tail(count: int, total: int, share: float) -> float:
    """Return the probability of at least `count` of `total` events at this `share`."""
    if count <= 0 or share >= 1:
        return 1.0
    if share <= 0 or count > total:
        return 0.0
    if count <= total * share:  # sum the shorter way
        below = _sum(count - 1, total, share, down=True)
        return max(0.0, 1.0 - below)
    return min(1.0, _sum(count, total, share, down=False))


def _sum(start: int, total: int, share: float, *, down: bool) -> float:
    """Sum the probabilities from `start` on, in the direction in which they fall."""
    log = (
        math.lgamma(total + 1)
        - math.lgamma(start + 1)
        - math.lgamma(total - start + 1)
        + start * math.log(share)
        + (total - start) * math.log1p(-share)
    )
    odds, at, term, relative = share / (1 - share), start, 1.0, 1.0
    while at > 0 if down else at < total:
        step = at / (total - at + 1) / odds if down else (total - at) / (at + 1) * odds
        term *= step
        at += -1 if down else 1
        relative += term
        if term < NEGLIGIBLE * relative:
            break
    return math.exp(log) * relative if log > -700 else 0.0


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
    order = sorted(
        known, key=lambda k: (upper_tail(known[k], total, exposure[k] / hours), k)
    )
    marks: dict[str, Mark] = {}
    goes_on = compared > 1
    for key in order:
        share = exposure[key] / hours
        tail = upper_tail(known[key], total, share)
        corrected = min(1.0, tail * compared)
        goes_on = goes_on and corrected < ALPHA
        marks[key] = Mark(total * share, tail, corrected, goes_on)
        if goes_on:
            total -= known[key]
            hours -= exposure[key]
            compared -= 1
    return marks
