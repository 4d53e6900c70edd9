"""A call that every member made and nobody finishes: the network, or a GPU.

If nothing lists the members, others may be missing. Launchers number ranks host by
host: where hosts hold equal blocks of the ranks that came, without a gap, a host that
nothing shows would have to be the last one, which is as unlikely as they are many. Of
few hosts it is possible at most that all came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.identity import host_blocks, world
from ncclforensics.correlate.traces.progress import UNLISTED
from ncclforensics.correlate.waits import line_calls
from ncclforensics.theory import sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


MANY_HOSTS = 10  # beside so many hosts, one that nothing shows is not reckoned with


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
    hosts = 0
    # that ranks waited does not show that it was in one call
    is_one = group != line_calls.SILENCE
    if is_one and unlisted and world.is_everyone(case.frames, call["waiting"]):
        hosts = host_blocks.many(case.frames, call["waiting"])
    doubt = not hosts and (unlisted or members < 2)
    sure = not unlisted or hosts >= MANY_HOSTS
    yield Story(
        "stuck-in-collective",
        (),
        call,
        what="stuck" if sure else "seen",
        costs=(
            ("stuck-in-collective", 1.0),
            *sides.unexplained(case, end, ()),
            ("unlike signature", float(call["call"] in case.unbalanced)),
            ("not begun", float(call["call"] in case.unbegun)),
            ("elsewhere", float(doubt)),
        ),
    )
