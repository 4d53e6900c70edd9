"""Keeps, of lines that hold nothing but a tag, a few of each tag.

A rank that prints its tag in line after line proves in three of them that it goes on.
Tags are told apart by the number behind the needle, taken from the bytes of the block
for all lines at once. Only what may be kept is made a line and matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.parsers.logs.ended_texts import UNKNOWN, place_among

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.ended_texts import Numbers
    from ncclforensics.parsers.logs.hits import Hits
    from ncclforensics.parsers.logs.lines import Block
    from ncclforensics.parsers.logs.search_terms import Search

# what tells tags apart, roughly; of each so many lines of a block are looked at
NUMBERED = r"(?:rank|Rank|RANK)\W{0,2}(\d{1,6})"
MARKS, DIGITS = 2, 6  # bytes of it behind a needle, at most
NEAR_TAGS = 64
TAG_LINES = 4  # per tag and block; three prove that a rank went on


def few(block: Block, hits: Hits, search: Search) -> Numbers:
    """Return the rows to keep, Int64, of lines that hold a needle of a tag.

    Those are the first ones of a tag in the block, and the last one: a rank that goes
    on after an exception prints several. `hits` are those of the needles.
    """
    told = _numbers(block.data, hits.place + search.sizes[hits.needle])
    told[~search.of_rank[hits.needle]] = UNKNOWN
    rows, numbers = _first_of_each(hits.row, told, block)
    place, back = place_among(numbers), place_among(numbers[::-1])[::-1]
    near = rows[(place < NEAR_TAGS) | (back < NEAR_TAGS)]
    tags = block.pick(near).select(search.tag.alias("tag"))["tag"]
    is_tag = tags != ""
    tag = tags.filter(is_tag).rank("dense").to_numpy().astype(np.int64)
    place, back = place_among(tag), place_among(tag[::-1])[::-1]
    kept = np.flatnonzero(is_tag.to_numpy())[(place < TAG_LINES) | (back == 0)]
    chosen: Numbers = near[kept]
    return chosen


def _numbers(data: bytes, begins: Numbers) -> Numbers:
    """Return the number that begins at or close behind each offset, or UNKNOWN."""
    width = MARKS + DIGITS
    text = np.frombuffer(data + bytes(width), np.uint8)
    window = text[begins[:, None] + np.arange(width)]
    is_digit = (window >= ord("0")) & (window <= ord("9"))
    first = is_digit.argmax(axis=1)
    is_word = (window | 0x20 >= ord("a")) | (window == ord("_"))
    place = np.arange(width)
    above = place < first[:, None]
    known = is_digit.any(axis=1) & (first <= MARKS) & ~(is_word & above).any(axis=1)
    told = np.zeros(len(begins), np.int64)
    goes_on = known
    for digit in range(DIGITS):
        at = np.minimum(first + digit, width - 1)
        byte = window[np.arange(len(begins)), at]
        goes_on = goes_on & (first + digit < width) & (byte >= 48) & (byte <= 57)
        told = np.where(goes_on, told * 10 + byte - 48, told)
    return np.where(known, told, UNKNOWN)


def _first_of_each(
    rows: Numbers, told: Numbers, block: Block
) -> tuple[Numbers, Numbers]:
    """Return distinct rows, ascending, that have a number, and the first of each."""
    known = np.flatnonzero(told != UNKNOWN)
    with_one, first = np.unique(rows[known], return_index=True)
    numbers = told[known][first]
    if known.size == len(rows):
        return with_one, numbers
    others = np.setdiff1d(rows, with_one)
    raw = block.pick(others)["raw"]
    found = raw.str.extract(NUMBERED).cast(pl.Int64).fill_null(UNKNOWN).to_numpy()
    both = np.concatenate([with_one, others[found != UNKNOWN]])
    order = np.argsort(both)
    return both[order], np.concatenate([numbers, found[found != UNKNOWN]])[order]
