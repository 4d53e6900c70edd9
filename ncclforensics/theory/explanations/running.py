"""The rival story that the job was still running.

Dumps are taken because a job hangs, so it has to overcome that; and where something
proves that the job stands, it is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import facts, sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case, End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody, unless the job is known to stand."""
    if facts.standing(case.frames).answer != "yes":
        costs = (("running", 1.0), *sides.unexplained(case, end, ()))
        yield Story("", (), None, what="running", costs=costs)
