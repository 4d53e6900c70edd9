"""How long is long: the limit of a silence, learned from the job's own pauses.

Two things can make a healthy silence longer than all before it. A pause of a known
kind may exceed its longest so far: after n alike pauses the next is the longest with a
chance of 1/(n+1), whatever their distribution, and how much longer it gets is taken to
fall by a power law. Or a kind that was never seen may come for the first time, such as
the first evaluation: after a history of H hours without it, its rate is about 1/H an
hour, and its length is taken from PAUSE. The limit is the longer of the two answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

# chance that a healthy pause of a known kind exceeds its limit; a job of a week has
# some hundred of them
CHANCE = 1e-3
# exponent of the power law for the longest pauses; steps, checkpoints and evaluations
# have lighter tails, near that of a log-normal with a spread of 1.7
TAIL = 4.0
# pauses within this factor of the longest count as its kind
ALIKE = 4.0
LEAST_FACTOR = 2.0  # times the longest pause, however many were seen
# of first pauses of an unseen kind, the length in seconds: half are below a minute, one
# in 20 is over 5 min, one in 700 over 20 min
PAUSE, SPREAD = 60.0, 1.0
# false words an hour by unseen kinds: one a year in a cluster of one job at a time
FALSE_AN_HOUR = 1e-4
# without history all pauses are unseen; beyond this a word would come hardly before the
# timeouts of half an hour that it is to precede
MOST_UNSEEN = 1200.0
SHORTEST, OCTAVES, PARTS = 1e-3, 32, 4  # of the histogram: from 1 ms to some weeks


@dataclass(slots=True)
class Pauses:
    """The pauses between signs of progress, as a histogram of bounded size.

    `longest` is in seconds, `history` is how many seconds the pauses cover together.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (OCTAVES * PARTS))
    longest: float = 0.0
    history: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count `times` pauses of so many seconds each."""
        seconds = max(seconds, 0.0)
        self.counts[_bucket(seconds)] += times
        self.longest = max(self.longest, seconds)
        self.history += seconds * times

    @property
    def usual(self) -> float:
        """The median pause in seconds by the time that pauses take; 0 without any.

        Bursts of lines make most pauses tiny: half of the job's time, not half of its
        pauses, is spent in shorter ones.
        """
        times = [count * _seconds(index) for index, count in enumerate(self.counts)]
        half, passed = sum(times) / 2, 0.0
        for index, share in enumerate(times):
            passed += share
            if share and passed >= half:
                return min(_seconds(index), self.longest)
        return 0.0

    @property
    def known(self) -> float:
        """The longest silence in seconds that a pause of a known kind may explain."""
        alike = sum(self.counts[_bucket(self.longest / ALIKE) :])
        chance = 1 / ((alike + 1) * CHANCE)
        return self.longest * max(LEAST_FACTOR, math.pow(chance, 1 / TAIL))

    @property
    def unseen(self) -> float:
        """The longest silence in seconds that a pause of a new kind may explain."""
        share = min(FALSE_AN_HOUR * self.history / 3600, 0.5)
        if share <= 0:
            return MOST_UNSEEN
        longest = PAUSE * math.exp(SPREAD * NormalDist().inv_cdf(1 - share))
        return min(longest, MOST_UNSEEN)


def _bucket(seconds: float) -> int:
    if seconds <= SHORTEST:
        return 0
    index = int(math.log2(seconds / SHORTEST) * PARTS)
    return min(index, OCTAVES * PARTS - 1)


def _seconds(index: int) -> float:
    """Return the middle of a bucket, in seconds."""
    return float(SHORTEST * 2 ** ((index + 0.5) / PARTS))
