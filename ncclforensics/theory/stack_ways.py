"""The way of a stack: its frames in the program's own code, outermost first.

Ranks that differ in a call are compared by it: at one place in the code it is one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import code_places
from ncclforensics.correlate.traces.progress import ROOTED
from ncclforensics.model.plans import collected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.case import Call, Case

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


def is_at_one_place(case: Case, ranks: tuple[int, ...], call: Call) -> bool:
    """Whether ranks that differ in a call make it where some others do in the code.

    They took no other branch of the program: it is the same call.
    """
    own, others = _stacks(case, ranks, call)
    if own & others:
        return True
    # the functions of torch differ from operation to operation
    ways = [way(case.frames, stack) for stack in own]
    theirs = (way(case.frames, stack) for stack in others)
    return any(one in ways for one in theirs if one)


def is_elsewhere(case: Case, ranks: tuple[int, ...], call: Call) -> bool:
    """Whether ranks that differ in a call make it where no other does in the code.

    A root and the others may make one call at different lines.
    """
    own, others = _stacks(case, ranks, call)
    known = bool(own and others) and call["op"] not in ROOTED
    return known and not is_at_one_place(case, ranks, call)


def _stacks(
    case: Case, ranks: tuple[int, ...], call: Call
) -> tuple[set[int], set[int]]:
    """Return the known stacks of ranks that differ in a call, and of its others."""
    told = case.signatures.get(call["call"], ())
    own = {s.stack for s in told if {*s.ranks} == {*ranks}}
    others = {s.stack for s in told if {*s.ranks} != {*ranks}}
    return {n for n in own if n is not None}, {n for n in others if n is not None}
