"""A call that every member made and nobody finishes: the network, or a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.identity import world
from ncclforensics.correlate.traces.progress import UNLISTED
from ncclforensics.theory import sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame nobody if all members joined one call."""
    if end.kind != "full":
        return
    call = case.calls[end.calls[0]]
    members, group = len(call["members"] or ()), str(call["group"])
    unlisted = group.endswith(UNLISTED)
    if unlisted and world.is_default(group):
        members = world.told_size(case.frames)
        unlisted = not members
    # no group is larger than the job
    elif unlisted and world.stated_size(case.frames) == len(call["waiting"]):
        members, unlisted = len(call["waiting"]), False
    unlisted |= members != len(call["waiting"])
    yield Story(
        "stuck-in-collective",
        (),
        call,
        what="stuck",
        costs=(
            ("stuck-in-collective", 1.0),
            *sides.unexplained(case, end, ()),
            ("unlike signature", float(call["call"] in case.unbalanced)),
            ("elsewhere", float(unlisted or call["is_p2p"] or members < 2)),
        ),
    )
