"""Which calls followed which contexts, and how often: sorted arrays of hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

LONGEST = 64  # calls of a context
SEEN = 3  # times that a context, or a loop, must have been seen to predict anything
# powers of an odd number by chance: for the call, each place before it, and the role
MIX = np.cumprod(np.full(LONGEST + 2, 5228884918942040225, np.uint64))
_OF_PAIR = np.uint64(3972913506553083703)


@dataclass(frozen=True, slots=True)
class Table:
    """How often each context was seen, and each call after it."""

    keys: Words
    totals: npt.NDArray[np.int64]
    pairs: Words
    counts_of: npt.NDArray[np.int64]
    best_of: Words

    @classmethod
    def of(cls, contexts: Words, words: Words, kept: npt.NDArray[np.bool_]) -> Table:
        """Return the table of the calls `kept`; equal counts are told apart by hash."""
        contexts, words = contexts[kept], words[kept]
        pairs, first, counts = np.unique(
            _pair(contexts, words), return_index=True, return_counts=True
        )
        order = np.lexsort((words[first], counts, contexts[first]))
        sorted_contexts = contexts[first][order]
        keys, start = np.unique(sorted_contexts, return_index=True)
        ends = np.append(start[1:], len(sorted_contexts)) - 1
        totals = np.add.reduceat(counts[order], start) if len(start) else counts[:0]
        best = words[first][order][ends] if len(keys) else words
        return cls(keys, totals, pairs, counts, best)

    def counts(
        self, contexts: Words, words: Words
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return how often each context was seen, and how often before this call."""
        return (
            _looked_up(self.keys, self.totals, contexts),
            _looked_up(self.pairs, self.counts_of, _pair(contexts, words)),
        )

    def best(self, context: np.uint64, times: int) -> int | None:
        """Return the usual call after a context that was seen over `times`, or None."""
        at = int(np.searchsorted(self.keys, context))
        known = at < len(self.keys) and self.keys[at] == context
        known = known and self.totals[at] > times
        return int(self.best_of[at]) if known else None


def _pair(contexts: Words, words: Words) -> Words:
    mixed: Words = contexts * MIX[0] + (words ^ (words >> np.uint64(31))) * _OF_PAIR
    return mixed


def _looked_up(
    keys: Words, values: npt.NDArray[np.int64], wanted: Words
) -> npt.NDArray[np.int64]:
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)
