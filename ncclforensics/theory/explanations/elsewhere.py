"""The rival story that the cause is not in this evidence.

Of a rank that nothing shows, that it waits for the cause at another end, as others do;
of absent ranks that timed out themselves, that they wait for it in a call that is not
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides
from ncclforensics.theory.story import Story, culprits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End

SHOWN = ("absent", "circle")  # kinds of ends whose ranks are known


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody: the cause is in no evidence, or at another end."""
    shown = any(other.kind in SHOWN for other in case.ends)
    waits = end.kind == "absent" and {*end.ranks} <= case.waited
    unseen = end.kind == "unseen" and shown
    why = "unseen wait" if waits or unseen else "elsewhere"
    # a GPU that has not begun is held by what it runs itself, each by its own
    held = culprits(case, end.ranks) if end.kind == "unstarted" else ()
    costs = ((why, 1.0), *held, *sides.unexplained(case, end, ()))
    yield Story("", (), None, what="elsewhere", costs=costs)
