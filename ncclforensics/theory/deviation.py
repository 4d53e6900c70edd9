"""Where one rank left the program of its role, as the program model found it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """Where a rank left the program of its role.

    `bits` is its surprise above the median of its role, `own` all of it. `row` is the
    row of the call in `Program.calls`. If the rank kept to the program where its peers
    left it, `peers` is the row of the call with which one of them did, and `row` the
    rank's last call. `fork` is the row of the call that its peers made from the same
    point, if that is not what history predicts either: rare branches of the program.
    """

    rank: int
    bits: float
    row: int
    peers: int | None = None
    fork: int | None = None
    own: float = 0.0

    @property
    def left_out(self) -> bool:
        """Whether the peers left the program, and this rank did not."""
        return self.peers is not None
