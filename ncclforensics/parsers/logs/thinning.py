"""Which lines are read of those that every rank prints in each step.

What a step took on one rank tells something only beside what it took on the others, so
the same steps have to be read of all, whichever files they stand in. A line is chosen
by its step, or by its place among its rank's lines where it prints none. All are read
at first, then half as many each time that there are twice as many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ncclforensics.parsers.logs import search_terms
from ncclforensics.parsers.logs.ended_texts import (
    TEXTS,
    UNKNOWN,
    EndedTexts,
    place_among,
)

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.ended_texts import Flags, Keys, Numbers
    from ncclforensics.parsers.logs.lines import Block

UNTOLD = 8192  # lines that are read of those that tell neither step nor rank
STEPS = (
    # a number with a fraction is how long a step, or its optimizer, took
    r"(?i)\b(?:step|iter|iteration)[\"']?(?:\s{0,2}[:=]\s{0,6}| {1,6})(\d{1,9})"
    r"\.?(?:[^.\d]|$)",
    r"\[ {0,8}(\d{1,9})/ {0,8}\d",
)
RANK = r"(?i)\brank\W{0,3}(\d{1,7})\b"
_RANK = re.compile(RANK.encode())
_STEPS = [re.compile(pattern.encode()) for pattern in STEPS]
LESSON = 64  # lines of a block that teach how a rank is told in front of a needle
# A hash chooses, so that steps may be printed at any interval: murmur3's last rounds.
ROUNDS = ((16, 0x85EBCA6B), (13, 0xC2B2AE35))
WHOLE = np.uint64(2**32 - 1)


@dataclass(slots=True)
class Thinning:
    """How many steps, and lines of a rank, one span of a log has had so far.

    Where a line tells its rank and no step, so do all that have the same words from
    the rank to the needle: they are not parsed. One of each block is, to see it.
    """

    _steps: int = 0
    _ranks: dict[str, int] = field(default_factory=dict)  # numbers of the ranks
    _lines: list[int] = field(default_factory=list)  # by number
    _untold: int = 0
    _texts: EndedTexts = field(default_factory=EndedTexts)

    def left_out(self, block: Block, at: Numbers, row: Numbers) -> Numbers:
        """Take the next lines, whose needles begin `at`, in `row`; return unread rows.

        Rows are ascending, and may repeat.
        """
        rows, first = np.unique(row, return_index=True)
        places = at[first]
        of_rank = np.full(len(rows), UNKNOWN, np.int64)
        chosen = np.ones(len(rows), np.bool_)
        left = np.arange(len(rows))
        # the first lines teach the texts of nearly all others
        for many in (0, LESSON, len(rows)):
            some, left = left[:many], left[many:]
            if some.size:
                parsed = self._parsed(block, places[some], rows[some])
                chosen[some], of_rank[some] = parsed
            of_rank[left] = self._known(block, places[left], rows[left])
            left = left[of_rank[left] == UNKNOWN]
            if not left.size:
                break
        told = of_rank != UNKNOWN
        if told.any():
            chosen[told] = self._of_ranks(of_rank[told])
        return rows[~chosen]

    def _known(self, block: Block, places: Numbers, rows: Numbers) -> Numbers:
        """Return the number of the rank of each line, UNKNOWN where its text is."""
        of_rank = self._texts.numbers(block.data, places)
        known = np.flatnonzero(of_rank != UNKNOWN)
        if known.size:
            row = int(rows[known[-1]])
            line = block.data[block.begin(row) : block.begin(row + 1)]
            if any(pattern.search(line) for pattern in _STEPS):
                self._texts = EndedTexts()
                of_rank[:] = UNKNOWN
        return of_rank

    def _parsed(
        self, block: Block, places: Numbers, rows: Numbers
    ) -> tuple[Flags, Numbers]:
        """Return which lines are read, and the rank of those that tell no step."""
        raw = block.pick(rows)["raw"]
        step = pl.coalesce(raw.str.extract(pattern) for pattern in STEPS)
        steps = pl.select(step.cast(pl.UInt64)).to_series()
        is_step = steps.is_not_null().to_numpy()
        chosen = np.ones(len(raw), np.bool_)
        told = steps.drop_nulls().to_numpy()
        known, order = np.unique(told, return_inverse=True)
        chosen[is_step] = _is_under(told, order + 1 + self._steps)
        self._steps += known.size
        of_rank = np.full(len(raw), UNKNOWN, np.int64)
        if not is_step.all():
            ranks = raw.filter(steps.is_null()).str.extract(RANK)
            of_rank[~is_step] = numbers = self._numbered(ranks)
            untold = np.flatnonzero(~is_step)[numbers == UNKNOWN]
            chosen[untold] = np.arange(untold.size) < UNTOLD - self._untold
            self._untold += untold.size
            self._learn(block, places, rows, of_rank)
        return chosen, of_rank

    def _numbered(self, ranks: pl.Series) -> Numbers:
        for rank in ranks.drop_nulls().unique(maintain_order=True):
            self._ranks.setdefault(rank, len(self._ranks))
        self._lines += [0] * (len(self._ranks) - len(self._lines))
        return np.array([self._ranks.get(rank, UNKNOWN) for rank in ranks], np.int64)

    def _learn(
        self, block: Block, places: Numbers, rows: Numbers, of_rank: Numbers
    ) -> None:
        """Learn the words from the rank to the needle of some lines without a step."""
        texts: dict[bytes, int] = {}
        for line in np.flatnonzero(of_rank != UNKNOWN)[:LESSON].tolist():
            head = block.data[block.begin(int(rows[line])) : int(places[line])]
            if found := _RANK.search(head):
                begin = head.rfind(b" ", 0, found.start()) + 1
                texts[head[begin:]] = int(of_rank[line])
        if self._texts.many + len(texts) <= TEXTS:
            self._texts.learn(texts)

    def _of_ranks(self, of_rank: Numbers) -> Flags:
        """Return which lines are read, by their place among those of their rank."""
        before = np.array(self._lines, np.int64)
        place = before[of_rank] + place_among(of_rank) + 1
        many = np.bincount(of_rank, minlength=len(self._lines))
        self._lines = (before + many).tolist()
        return _is_under(place.astype(np.uint64), place)


def _is_under(keys: Keys, so_far: Keys | Numbers) -> Flags:
    """Return which keys are read where so many steps were told so far."""
    halved = np.floor(np.log2(so_far / search_terms.ALL_STEPS)).clip(-1) + 1
    return _hashed(keys) < 2.0 ** (32 - halved)


def _hashed(keys: Keys) -> Keys:
    """Return numbers below 2 ** 32 that look random, UInt64."""
    for shift, factor in ROUNDS:
        keys = ((keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)) & WHOLE
    return keys ^ (keys >> np.uint64(16))
