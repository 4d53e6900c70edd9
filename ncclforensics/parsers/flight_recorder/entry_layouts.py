"""The byte layout of a pickle's entries, shared between the dumps of a job.

Ranks of one job make the same calls. So their entries have the same bytes at the same
offsets, except for numbers. The analysis of one dump holds for every dump with the same
layout, and a fast comparison of bytes detects that.
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

MOST = 8  # layouts kept
MOST_BYTES = 8 * 1024**2  # largest entries, in bytes, whose layout is kept


@dataclass(frozen=True, slots=True)
class Column:
    """The offsets of the values of one member, in some entries.

    `at` and `kept` are as in Numbers.
    """

    key: str
    dtype: np.dtype[Any]
    entries: Array
    places: Array
    at: Array
    kept: Sequence[int]

    def read(self, data: bytes, start: int) -> Numbers:
        """Read the values; `places` are offsets from `start`."""
        height = len(data) - start - self.dtype.itemsize + 1
        anywhere: Array = np.ndarray((height,), self.dtype, data, start, (1,))
        values = anywhere[self.places]
        return Numbers(self.key, self.entries, values, self.at, self.kept)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of all entries but the first and the last, which are read separately.

    Entry n spans `starts[n - 1]` to `starts[n]`, relative to the first start. `kept`
    are the numbers of the entries that repeat no other one, including the first and the
    last. `repeats` maps every entry to the index in `kept` that it repeats, except for
    the `columns`. `counts` is how many values an entry memoizes implicitly. `places`
    are the explicit memo indices. `parts` are the kept entries as walked. `texts` are
    the keys of the columns, by the opcode that fetches them. `data` holds the bytes;
    `fixed` marks those that define the layout.
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
        """Whether the entries of a pickle with this head have this layout."""
        last = head.end + len(self.data)
        if not head.entry.match(data, last) or head.entry.search(data, last + 1):
            return False
        if not self.texts.items() <= head.texts.items():
            return False
        found = np.frombuffer(data, np.uint8, len(self.data), head.end)
        return not np.logical_and(found != self.data, self.fixed).any()


@dataclass(frozen=True, slots=True)
class Head:
    """The bytes before the second entry, up to offset `end`.

    `texts` maps each fetching opcode to a memoized text. `entry` matches the beginning
    of an entry.
    """

    part: Part
    end: int
    texts: Mapping[bytes, bytes]
    entry: re.Pattern[bytes]


def find(known: Sequence[Layout], data: bytes, head: Head) -> Layout | None:
    """Return the known layout of a pickle, None if it has none of them."""
    return next((layout for layout in known if layout.fits(data, head)), None)


def keep(known: list[Layout], layout: Layout) -> None:
    """Cache a layout for later pickles; evicts the oldest one if the cache is full."""
    if len(layout.data) <= MOST_BYTES:
        del known[MOST - 1 :]
        known.insert(0, layout)


def fixed(kinds: Array, free: Sequence[slice]) -> Array:
    """Mark the bytes that define a layout: all but numbers and content in `free`."""
    made: Array = kinds != ops.NUMBER
    for part in free:
        made[part] &= kinds[part] != ops.CONTENT
    return made
