"""Restores the rows of entries that `dedup` removed.

An entry that repeats an earlier one is that one with other numbers. So what was read of
the kept entries is handed out to all, and the numbers that differ are put in: for some
dumps at once, since each column costs more than its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of one member in some entries.

    Of these, those of the index `at` are kept, as the kept entries of the index `kept`.
    """

    key: str
    entries: Array
    values: Array
    at: Array
    kept: Sequence[int]


@dataclass(frozen=True, slots=True)
class Shortened:
    """A pickle without repeated entries.

    `kept` are the numbers of the entries that it still has, `repeats` says of all which
    of these they repeat, but for `numbers`.
    """

    data: bytes
    kept: Array
    repeats: Array
    numbers: tuple[Numbers, ...]

    def agrees(self, entries: Sequence[dict[Any, Any]]) -> bool:
        """Whether the unpickler reads the same numbers out of the kept entries."""
        if len(entries) != len(self.kept):
            return False
        return all(
            entries[place].get(told.key) == value
            for told in self.numbers
            for place, value in zip(
                told.kept, told.values[told.at].tolist(), strict=True
            )
        )

    def least(self, key: str) -> int | None:
        """Return the smallest value of a member among those that differ."""
        found = [int(n.values.min()) for n in self.numbers if n.key == key]
        return min(found, default=None)

    def latest(self) -> list[int]:
        """Return the kept entries, by their index, from who was repeated last."""
        last = np.empty(len(self.kept), np.int64)
        last[self.repeats] = np.arange(len(self.repeats))
        order: list[int] = np.argsort(last)[::-1].tolist()
        return order


def spread(
    kept: pl.DataFrame, told: Iterable[tuple[int, Shortened | None]]
) -> pl.DataFrame:
    """Hand out the rows of the kept entries of some dumps to all of their entries.

    `told` says of each dump how many rows it has, and of what they are repeated, if of
    anything. `kept` has the entries' numbers by their keys, whatever else all entries
    have of those that they repeat, and their `line`.
    """
    where: list[Array] = []
    patches: dict[str, list[tuple[Any, Array]]] = {name: [] for name in kept.columns}
    before = rows = 0
    for height, short in told:
        if short is None:
            where.append(np.arange(before, before + height))
        else:
            where.append(short.repeats + before)
            count = len(short.repeats)
            lines = np.arange(1, count + 1)
            patches["line"].append((slice(rows, rows + count), lines))
            for own in short.numbers:
                if own.key in patches:
                    patches[own.key].append((own.entries + rows, own.values))
        rows += len(where[-1])
        before += height
    at = np.concatenate(where)
    return pl.DataFrame([_spread(kept[name], at, patches[name]) for name in patches])


def _spread(
    kept: pl.Series, at: Array, patches: Iterable[tuple[Any, Array]]
) -> pl.Series:
    values = kept.fill_null(0).to_numpy()[at]
    for rows, told in patches:
        values[rows] = told
    spread = pl.Series(kept.name, values, dtype=kept.dtype)
    if not kept.null_count():
        return spread
    return spread.set(pl.Series(kept.is_null().to_numpy()[at]), None)
