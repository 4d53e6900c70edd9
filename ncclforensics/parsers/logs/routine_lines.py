"""Where the messages are that a healthy job prints all the time: step counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncclforensics.parsers.logs.needles import in_bulk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.parsers.logs.lines import Block, Numbers


@dataclass(frozen=True, slots=True)
class Routine:
    """Where the routine messages of a block are; `needles` are those it holds."""

    block: Block
    needles: Sequence[bytes]

    def rows(self, end: int) -> Numbers:
        """Return the rows before row `end` that hold one, sorted."""
        data = self.block.data[: self.block.begin(end)]
        found = [in_bulk(data, needle) for needle in self.needles]
        at = np.concatenate([np.zeros(0, np.int64), *found])
        return np.unique(self.block.rows_of(at))

    def before(self, row: int, start: int) -> list[int]:
        """Return the last such row before `row` and not before `start`, or nothing."""
        if not self.needles:
            return []
        start, end = self.block.begin(max(start, 0)), self.block.begin(row)
        at = max(self.block.data.rfind(needle, start, end) for needle in self.needles)
        return [] if at < 0 else [self.block.row_of(at)]

    def after(self, row: int) -> list[int]:
        """Return the first such row from `row` on, or nothing."""
        if not self.needles:
            return []
        start = self.block.begin(row)
        found = {self.block.data.find(needle, start) for needle in self.needles} - {-1}
        return [self.block.row_of(min(found))] if found else []
