"""The rival story that the cause is not in this evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.theory import sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody: the cause is in no evidence."""
    costs = (("elsewhere", 1.0), *sides.unexplained(case, end, ()))
    yield Story("", (), None, what="elsewhere", costs=costs)
