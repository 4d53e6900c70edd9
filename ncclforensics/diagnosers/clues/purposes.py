"""What a call of a few ranks is for: one behind a condition, or the end of a loop.

The program's order tells, where stacks part inside of one function; else the names of
the functions that only the few are in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from ncclforensics.diagnosers.clues import programs

if TYPE_CHECKING:
    from ncclforensics.frames import Frames

Call = dict[str, Any]
Purpose = Literal["conditional", "uneven"]

# names of functions in which a few ranks make calls of their own, and of those that
# all ranks come to at the end
FEW_DO = re.compile(
    r"eval|valid|test|log|metric|report|summar|sav|checkpoint|ckpt", re.I
)
# a loop over an epoch is not its end, and what sends or appends ends nothing
AT_THE_END = re.compile(
    r"(?<!train_)(?<!one_)(?<!run_)(?<!fit_)epoch|barrier|finish|final|join|tear"
    r"|(?<![a-z])end(?![a-z])|(?-i:End)",
    re.I,
)
INNER = 4  # frames of a call itself, with torch's own


def of(
    frames: Frames,
    call: Call,
    odd: tuple[int, ...],
    stack: int | None,
    others: tuple[Call, ...],
) -> Purpose:
    """Tell an extra call from the end of a loop, by the program's own order."""
    mine = programs.way(frames, stack)
    for other in others:
        if programs.order(frames, stack, other["stack"]) < 0:
            return "conditional"  # the others are past that place
        named = by_name(mine, _beside(frames, mine, other))
        if named is not None:
            return named
    return "conditional" if odd[0] == min(call["members"] or odd) else "uneven"


def is_named(
    frames: Frames, stack: int | None, odd: tuple[int, ...], others: tuple[Call, ...]
) -> bool:
    """Whether the functions that only this side is in tell what its call is for.

    What a few do alone, not half of them do.
    """
    collective = [c for c in others if not c["is_p2p"]]
    mine = programs.way(frames, stack)
    told = {by_name(mine, _beside(frames, mine, c)) for c in collective}
    few = len(odd) < len({rank for c in collective for rank in c["waiting"]})
    return told == {"uneven"} or (told == {"conditional"} and few)


def _beside(frames: Frames, mine: programs.Way, call: Call) -> programs.Way:
    return programs.beside(frames, mine, call["stack"], call["waiting"][0])


def by_name(mine: programs.Way, theirs: programs.Way) -> Purpose | None:
    """Tell by the functions that only one side is in what its call is for.

    Where nothing is known of the other side, the innermost ones tell that a few make
    the call; a loop may be named after what comes at its end.
    """
    if not theirs:
        inner = " ".join(str(name) for name, _, _ in mine[-INNER:])
        return "conditional" if FEW_DO.search(inner) else None
    both = {frame[0] for frame in theirs}
    own = " ".join(str(name) for name, _, _ in mine if name not in both)
    if FEW_DO.search(own):
        return "conditional"
    return "uneven" if AT_THE_END.search(own) else None
