"""The byte layout of a pickle's entries, shared between the dumps of a job.

Ranks of one job make the same calls. So their entries are of the same bytes, but for
numbers, and lie in the same places. What was found out of one dump's is true of all
that are laid out like it, which a comparison of bytes tells in a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncclforensics.parsers.flight_recorder import opcodes as ops
from ncclforensics.parsers.flight_recorder.expand import Numbers

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

    from ncclforensics.parsers.flight_recorder.opcodes import Part

    Array = np.ndarray[Any, np.dtype[Any]]

MOST = 8  # layouts that are kept
MOST_BYTES = 8 * 1024**2  # of entries whose layout is kept


@dataclass(frozen=True, slots=True)
class Column:
    """Where the values of one member stand, in some entries.

    `at` and `kept` are those of its Numbers.
    """

    key: str
    dtype: np.dtype[Any]
    entries: Array
    places: Array
    at: Array
    kept: Sequence[int]

    def read(self, data: bytes, start: int) -> Numbers:
        """Read the values; `places` count from `start`."""
        height = len(data) - start - self.dtype.itemsize + 1
        anywhere: Array = np.ndarray((height,), self.dtype, data, start, (1,))
        values = anywhere[self.places]
        return Numbers(self.key, self.entries, values, self.at, self.kept)


@dataclass(frozen=True, slots=True)
class Layout:
    """The entries between the first and the last, which both are looked at by others.

    Entry n is between `starts[n - 1]` and `starts[n]`, counted from the first of these.
    `kept` are the numbers of the entries that repeat no other, the first and the last
    one among them, `repeats` says of all which of these they repeat but for the
    `columns`, `counts` how many values they keep without writing out their places.
    `places` are those in the memo that are written out, `parts` are kept entries as
    they were walked. `texts` are the keys of the columns, by what fetches them. `data`
    are the bytes, `fixed` says which of them make the layout.
    """

    starts: Array
    kept: Array
    repeats: Array
    counts: Array
    places: Array
    parts: Mapping[int, Part]
    columns: Sequence[Column]
    texts: Mapping[bytes, bytes]
    data: Array
    fixed: Array

    def fits(self, data: bytes, head: Head) -> bool:
        """Whether the entries of a pickle with such a head are laid out so."""
        last = head.end + len(self.data)
        if not head.entry.match(data, last) or head.entry.search(data, last + 1):
            return False
        if not self.texts.items() <= head.texts.items():
            return False
        found = np.frombuffer(data, np.uint8, len(self.data), head.end)
        return not np.logical_and(found != self.data, self.fixed).any()


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the second entry: it ends there, and keeps `texts`.

    These are there by what fetches them. An `entry` begins in this way.
    """

    part: Part
    end: int
    texts: Mapping[bytes, bytes]
    entry: re.Pattern[bytes]


def find(known: Sequence[Layout], data: bytes, head: Head) -> Layout | None:
    """Return the one of the known layouts that a pickle has."""
    return next((layout for layout in known if layout.fits(data, head)), None)


def keep(known: list[Layout], layout: Layout) -> None:
    """Keep a layout for the pickles to come, instead of the oldest one."""
    if len(layout.data) <= MOST_BYTES:
        del known[MOST - 1 :]
        known.insert(0, layout)


def fixed(kinds: Array, free: Sequence[slice]) -> Array:
    """Return which bytes make a layout: all but numbers, and what `free` parts hold."""
    made: Array = kinds != ops.NUMBER
    for part in free:
        made[part] &= kinds[part] != ops.CONTENT
    return made
