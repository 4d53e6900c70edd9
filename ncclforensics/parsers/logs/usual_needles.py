"""Which needles a log holds in block after block, for a search that leaves them out.

To find a needle at all takes no time where it stands at a block's beginning, but a
search for many that meets one in every line slows down at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set

BLOCKS = 8  # in a row that have to hold a needle; to prepare a search takes long
NONE: frozenset[int] = frozenset()


@dataclass(slots=True)
class Usual:
    """The `needles`, by number, that the last blocks of a log all held."""

    needles: frozenset[int] = NONE
    _held: frozenset[int] = NONE  # by all of the last `_blocks`
    _blocks: int = 0

    def learn(self, present: Set[int]) -> None:
        """Take what the next block holds."""
        self._held = (self._held if self._blocks else frozenset(present)) & present
        self._blocks += 1
        if self._blocks == BLOCKS:
            self.needles, self._blocks = self._held, 0
        elif self.needles - present:
            self.needles = NONE
