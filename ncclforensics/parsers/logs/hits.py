"""Where needles are in a block: what `scan` decides on, before any line is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from ncclforensics.parsers.logs.ended_texts import Flags, Numbers
    from ncclforensics.parsers.logs.lines import Block


class Hits(NamedTuple):
    """Places of needles, all Int64 and equally long.

    `needle` is the number of one, `place` its offset in the data of the block, and
    `row` that of the line, 0-based.
    """

    place: Numbers
    row: Numbers
    needle: Numbers

    def only(self, some: Flags | Numbers) -> Hits:
        """Return some of them: where a flag is set, or at indices."""
        return Hits(self.place[some], self.row[some], self.needle[some])

    def of(self, needles: Collection[int]) -> Flags:
        """Return which are those of some needles."""
        return np.isin(self.needle, [*needles])


# by the number of a needle: the rows that hold it, and a place in each
Repeated = Mapping[int, tuple["Numbers", "Numbers"]]
NOWHERE = np.zeros(0, np.int64)
NONE = Hits(NOWHERE, NOWHERE, NOWHERE)


def placed(block: Block, held: Mapping[int, Numbers]) -> Hits:
    """Return the places of each needle, by number, with their rows."""
    place = np.concatenate([NOWHERE, *held.values()])
    needle = np.repeat(np.array([*held], np.int64), [len(at) for at in held.values()])
    return Hits(place, block.rows_of(place), needle)


def joined(hits: Hits, repeated: Repeated) -> Hits:
    """Return `hits` and those of other needles."""
    if not repeated:
        return hits
    rows, places = zip(*repeated.values(), strict=True)
    needle = np.repeat(np.array([*repeated], np.int64), [len(some) for some in rows])
    return Hits(
        np.concatenate([hits.place, *places]),
        np.concatenate([hits.row, *rows]),
        np.concatenate([hits.needle, needle]),
    )


def rows_under(rows: Numbers, ends: Numbers, pending: int, height: int) -> Numbers:
    """Return the rows of a block from each of `rows` to before its end, each once.

    And the first `pending` ones; `height` is how many rows the block has.
    """
    begun = np.bincount(np.append(rows, 0), minlength=height + 1)
    stops = np.append(ends, pending).clip(max=height)
    ended = np.bincount(stops, minlength=height + 1)
    return np.flatnonzero(np.cumsum(begun - ended)[:height] > 0)
