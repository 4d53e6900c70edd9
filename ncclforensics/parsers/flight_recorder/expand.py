"""Restores the rows of entries that `dedup` removed.

A repeated entry is an earlier one with different numbers. So the rows of the kept
entries are copied to all entries, and the differing numbers are filled in. This is done
for several dumps at once, because each column costs more than its rows.
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

    The items at the indices `at` belong to kept entries; `kept` are the indices of
    these among the kept entries.
    """

    key: str
    entries: Array
    values: Array
    at: Array
    kept: Sequence[int]


@dataclass(frozen=True, slots=True)
class Shortened:
    """A pickle without repeated entries.

    `kept` are the 0-based numbers of the remaining entries. `repeats` maps every entry
    to the index in `kept` that it repeats, except for `numbers`.
    """

    data: bytes
    kept: Array
    repeats: Array
    numbers: tuple[Numbers, ...]

    def agrees(self, entries: Sequence[dict[Any, Any]]) -> bool:
        """Whether the unpickler reads the same numbers from the kept entries."""
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
        """Return the smallest of a member's differing values, None if it has none."""
        found = [int(n.values.min()) for n in self.numbers if n.key == key]
        return min(found, default=None)

    def latest(self) -> list[int]:
        """Return the indices of the kept entries, the last repeated one first."""
        last = np.empty(len(self.kept), np.int64)
        last[self.repeats] = np.arange(len(self.repeats))
        order: list[int] = np.argsort(last)[::-1].tolist()
        return order


def spread(
    kept: pl.DataFrame, told: Iterable[tuple[int, Shortened | None]]
) -> pl.DataFrame:
    """Copy the rows of the kept entries of several dumps to all of their entries.

    `told` has, per dump, the number of its rows in `kept`, and its Shortened if it was
    shortened. `kept` has a column per number, `line`, and the columns that repeats
    share with the entry that they repeat.
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
