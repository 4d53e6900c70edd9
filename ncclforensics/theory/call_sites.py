"""Compare the call site of a side's call with the call sites of the other ranks.

The program's structure is the stronger evidence: the stacks of the loop's calls part in
one function, and a call made outside of that function is outside of the loop. Function
names are only a hint, and are weighed as one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.correlate.traces import code_places
from ncclforensics.theory.stack_ways import Way, way, ways_of

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.case import Case
    from ncclforensics.theory.sides import Side

# functions in which a few ranks make calls of their own
FEW_DO = re.compile(
    r"eval|valid|test|log|metric|report|summar|sav|checkpoint|ckpt", re.I
)
# functions that all ranks reach at the end; a loop over an epoch is not its end, nor is
# its beginning or the end of a batch, and `send` or `append` end nothing
AT_THE_END = re.compile(
    r"(?<!train_)(?<!one_)(?<!run_)(?<!fit_)(?<!set_)(?<!start_)(?<!begin_)epoch"
    r"|barrier|finish|final|join|tear"
    r"|(?<![a-z])(?<!batch_)(?<!step_)end(?![a-z])|(?-i:(?<!Batch)(?<!Step)End)",
    re.I,
)
RECENT = 200  # last calls of a rank that are taken for its loop


@dataclass(frozen=True, slots=True)
class Place:
    """What a call site shows: by function names, and by its position to the loop.

    `in_step`: gradients are reduced there, as every rank does in each step.
    """

    named: Literal["", "conditional", "uneven"] = ""
    outside: bool = False
    inside: bool = False
    in_step: bool = False
    barrier: bool = False


def of(case: Case, side: Side) -> Place:
    """Return what a side's call site shows, compared with the loop of the ranks."""
    # members of one call may differ in what they called
    held = case.frames["held"].filter(pl.col("rank").is_in(side.ranks), choice=0)
    op = next(iter(held["op"].drop_nulls().mode().sort()), side.call["op"])
    if side.edit is not None:
        op = case.program.calls["op"][side.edit.row]
    barrier = "barrier" in str(op or "").lower()
    stack = side.call["stack"]
    if side.edit is not None:
        stack = case.program.calls["stack"][side.edit.row] or stack
    barrier |= _holds(case, stack, code_places.is_barrier())
    mine = way(case.frames, stack)
    if not mine:
        return Place(barrier=barrier)
    others = [other for other in _usual(case, side) if other != stack]
    usual = ways_of(case.frames, others).values()
    ways = [w for w in usual if w[0][1] == mine[0][1]]
    # single frames, as from tracebacks and log lines, show no enclosing function
    deep = len(mine) > 1 or any(len(w) > 1 for w in ways)
    outside = len(ways) > 1 and deep and _is_outside(mine, ways)
    inside = bool(ways) and not outside and _is_inside(mine, ways)
    met = list(ways_of(case.frames, _met(case, side)).values())
    named = _named_apart(mine, ways, met)
    in_step = _holds(case, stack, code_places.in_backward())
    return Place(named, outside, inside, in_step, barrier)


def _holds(case: Case, stack: int | None, which: pl.Expr) -> bool:
    """Whether a frame of a stack is of some kind."""
    if stack is None:
        return False
    mine = case.frames["stacks"].filter(pl.col("stack") == stack)
    return bool(mine.select(which.any()).item())


def _met(case: Case, side: Side) -> list[int | None]:
    """Return the stacks of the other members of the side's own call, if they differ."""
    told = case.signatures.get(side.call["call"], ())
    return [other.stack for other in told if {*other.ranks} != {*side.ranks}]


def _usual(case: Case, side: Side) -> list[int | None]:
    """Return the stacks of the calls that ranks at this end wait in, and repeat.

    Members of the side's own call may be at another place.
    """
    stacks = [other["stack"] for other in side.others]
    stacks += _met(case, side)
    recent = (
        case.program.calls.filter(pl.col("over") & pl.col("stack").is_not_null())
        .group_by("rank", maintain_order=True)
        .tail(RECENT)
    )
    many = recent.group_by("stack").len().filter(pl.col("len") > 2)["stack"].sort()
    return [*dict.fromkeys([*stacks, *many.to_list()])]


def _loop(ways: list[Way]) -> int:
    """Return the depth of the first frame in which the loop's stacks differ."""
    depth = 0
    while all(len(w) > depth for w in ways) and len({w[depth] for w in ways}) == 1:
        depth += 1
    return depth


def _is_outside(mine: Way, ways: list[Way]) -> bool:
    """Whether a call is made outside of the function in which the loop's calls part."""
    depth = _loop(ways)
    return any(
        depth > at and (at >= len(mine) or mine[at] != ways[0][at])
        for at in range(depth)
    )


def _is_inside(mine: Way, ways: list[Way]) -> bool:
    """Whether a call is made in that function, above the last of the loop's lines."""
    depth = _loop(ways)
    if depth >= len(mine):
        return False
    lines = [
        w[depth][2] for w in ways if len(w) > depth and w[depth][:2] == mine[depth][:2]
    ]
    line = mine[depth][2]
    known = [n for n in lines if n is not None]
    return bool(known) and line is not None and line < max(known)


def _named(mine: Way, ways: list[Way]) -> Literal["", "conditional", "uneven"]:
    """Return what the outermost function that tells it, of those of its own, tells.

    The hooks of a framework are called at the end of everything: its functions count
    only where the user's own tell nothing, and then all together.
    """
    both = {frame[0] for w in ways for frame in w}
    own = [(str(name), str(file)) for name, file, _ in mine if name not in both]
    users = [name for name, file in own if not re.search(code_places.INSTALLED, file)]
    for names in (*users, " ".join(name for name, _ in own)):
        few, end = FEW_DO.search(names), AT_THE_END.search(names)
        if (few is None) != (end is None):  # `save_epoch` tells neither
            return "conditional" if few else "uneven"
    return ""


def _named_apart(
    mine: Way, ways: list[Way], met: list[Way]
) -> Literal["", "conditional", "uneven"]:
    """Return what `_named` tells, "" if it is the same of members met in that call."""
    told = _named(mine, ways)
    return "" if any(_named(other, [mine]) == told for other in met) else told


def parting(frames: Frames, mine: int | None, theirs: int | None) -> str:
    """Say where two stacks part: `train.py:72 train against train.py:60 train`."""
    for own, peer in zip(way(frames, mine), way(frames, theirs), strict=False):
        if own != peer:
            return f"{_place(own)} against {_place(peer)}"
    return ""


def _place(frame: tuple[str, str, int | None]) -> str:
    return f"{str(frame[1]).rpartition('/')[2]}:{frame[2]} {frame[0]}"
