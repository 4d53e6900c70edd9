"""The rival story that the job was still running.

Dumps are taken because a job hangs, so this story is expensive, but where a slow rank
is a reason to take them. It is not proposed if
something proves that the job stands still, nor where ranks wait for each other in
collectives: ranks that enter groups in one order never do, at any moment. Files tell
against it if they were written long after a call that is open in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides, slow_ranks, standstill
from ncclforensics.theory.ends import is_crossed
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def prior(case: Case) -> str:
    """Return the weight that tells how seldom such a job is dumped."""
    return "slow job" if slow_ranks.tells_why(case.frames) else "running"


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody; nothing is proposed if the job is known to stand still."""
    if is_crossed(case, end) or standstill.standing(case.frames).answer == "yes":
        return
    costs = (
        (prior(case), 1.0),
        ("long wait", float(standstill.waited_long(case.frames))),
        *sides.unexplained(case, end, ()),
    )
    yield Story("", (), None, what="running", costs=costs)
