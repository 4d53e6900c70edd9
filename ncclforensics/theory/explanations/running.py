"""The rival story that the job was still running.

Dumps are taken because a job hangs, so this story is expensive. It is not proposed if
something proves that the job stands still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides, standstill
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody; nothing is proposed if the job is known to stand still."""
    if standstill.standing(case.frames).answer != "yes":
        costs = (("running", 1.0), *sides.unexplained(case, end, ()))
        yield Story("", (), None, what="running", costs=costs)
