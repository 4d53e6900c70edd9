"""Where a needle is that stands in line after line: at the place where others had it.

Lines of one kind begin and end alike, so a needle of theirs is as far from the begin of
a line, or from its end, as in the lines before. A few lines tell these distances; at
each of them the needle is compared in all lines at once. Only lines that hold it
nowhere there are searched.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ncclforensics.parsers.logs.needles import in_bulk, stands

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.lines import Block, Numbers

LESSON = 16  # lines with a needle that tell its distances
DENSE = 4  # a needle that stands in fewer than one line of so many is just searched
MOST_DISTANCES = 4  # from begins, and from ends, that are tried


def in_lines(block: Block, needle: bytes) -> tuple[Numbers, Numbers]:
    """Return the rows that hold a needle, ascending, and where in `data` it begins.

    That is the first place of a row, unless another one is where other rows have it:
    as far from the end, and not farther from the begin.
    """
    places = np.full(len(block.ends), -1, np.int64)
    rows = np.arange(len(places))
    distances, farthest = _distances(block, needle)
    for from_end, distance in distances:
        begins = block.begins[rows]
        at = (block.ends if from_end else block.begins)[rows] + distance
        is_inside = (at >= begins) & (at + len(needle) <= block.ends[rows])
        is_inside &= at <= begins + farthest
        is_here = np.zeros(len(rows), np.bool_)
        is_here[is_inside] = stands(block.data, needle, at[is_inside])
        places[rows[is_here]] = at[is_here]
        rows = rows[~is_here]
        if not rows.size:
            break
    if rows.size:
        _search(block, needle, rows, places)
    held = np.flatnonzero(places >= 0)
    return held, places[held]


def _distances(block: Block, needle: bytes) -> tuple[list[tuple[bool, int]], int]:
    """Return how far a needle is from begins of lines, or (True) from their ends.

    And how far it is from a begin at most. Nothing is told of one that is rare.
    """
    ahead: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    at = 0
    for _ in range(LESSON):
        if (at := block.data.find(needle, at)) < 0:
            break
        row = block.row_of(at)
        end = int(block.ends[row])
        ahead[at - block.begin(row)] += 1
        behind[at - end] += 1
        at = end
        if row >= DENSE * LESSON:
            return [], 0
    told = [
        (from_end, distance)
        for from_end, some in ((False, ahead), (True, behind))
        for distance in sorted(one for one, _ in some.most_common(MOST_DISTANCES))
    ]
    return told, max(ahead, default=0)


def _search(block: Block, needle: bytes, rows: Numbers, places: Numbers) -> None:
    """Put in `places` where a needle is in some rows."""
    data, shift = block.data, np.zeros(len(rows), np.int64)
    begins = block.begins[rows]
    if 2 * len(rows) < len(places):
        ends = block.ends[rows] + 1
        data = b"".join(map(data.__getitem__, map(slice, begins, ends)))
        ahead = np.cumsum(ends - begins) - (ends - begins)
        begins, shift = ahead, begins - ahead
    at = in_bulk(data, needle)
    of = begins.searchsorted(at, side="right") - 1
    of, first = np.unique(of, return_index=True)
    # where all lines are searched, a place may be in one that holds it elsewhere
    told = at[first] + shift[of]
    is_mine = (of >= 0) & (told < block.ends[rows[of]])
    places[rows[of[is_mine]]] = told[is_mine]
