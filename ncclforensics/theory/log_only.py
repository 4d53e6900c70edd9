"""Stories that rest on log lines alone: silent ranks, call sites, bare numbers.

A dump shows that a call was not made. Log lines show it less reliably: a rank that
logged nothing, a rank at another call site, or equal sequence numbers of groups that no
line names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.traces import call_summary, groupless_timeouts
from ncclforensics.correlate.traces.progress import UNLISTED

if TYPE_CHECKING:
    from ncclforensics.theory.case import Case
    from ncclforensics.theory.story import Story


def is_hearsay(case: Case, story: Story) -> bool:
    """Whether only log lines show who waited in a story's call and who was absent."""
    call = story.call
    if call is None:
        return False
    group = str(call["group"])
    # of a call with one rank in it, the other members are not known either; where ranks
    # differ in it, both are
    alone = group.endswith(UNLISTED) and call["waiting"] == list(story.ranks)
    alone = alone and not call["absent"] and call["call"] not in case.signatures
    if alone or group.startswith(groupless_timeouts.PREFIX):
        return True
    dumps = call_summary.dumps(case.frames)["rank"].drop_nulls()
    at_a_place = not case.frames.has("collectives") and call["stack"] is not None
    shown = {*dumps, *case.frames["standings"]["rank"]}
    return at_a_place or not {*story.ranks} <= shown
