"""The way of a stack: its frames in the program's own code, outermost first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import code_places
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames

Way = list[tuple[str, str, int | None]]  # function, file, line


def way(frames: Frames, stack: int | None) -> Way:
    """Return a stack's frames in user code, outermost first: function, file, line."""
    return ways_of(frames, [stack]).get(stack, [])


def ways_of(frames: Frames, stacks: Iterable[int | None]) -> dict[int | None, Way]:
    """Return the `way` of each of `stacks` that has frames in user code, in order."""
    wanted = [stack for stack in stacks if stack is not None]
    if not wanted:
        return {}
    is_wanted = pl.col("stack").is_in(pl.Series(wanted, dtype=pl.UInt64).implode())
    own = collected(
        frames["stacks"]
        .lazy()
        .filter(is_wanted)
        .filter(code_places.is_own())
        .unique(["stack", "depth"], keep="first")
        .sort("depth", descending=True)
        .select("stack", "function", "file", "file_line")
    )
    ways: dict[int | None, Way] = {stack: [] for stack in wanted}
    for stack, *frame in own.iter_rows():
        ways[stack].append((frame[0], frame[1], frame[2]))
    return {stack: found for stack, found in ways.items() if found}
