"""How much more cheaply one running job explains all ends than failures do.

A job in full run has ends of all kinds at once, and one story for them. Several
failures are as many stories; the ends of one failure share its prior. A failure that
lasts stops everybody: a live rank that it does not name runs on until a call holds it.
Ranks between two calls, for which nobody waits, are of a job that runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ncclforensics.theory import ends as ends_
from ncclforensics.theory import slow_ranks, standstill, weights
from ncclforensics.theory.explanations import running
from ncclforensics.theory.story import culprits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End
    from ncclforensics.theory.story import Story
    from ncclforensics.theory.weigh import Told


def margin(case: Case, ends: Sequence[Told]) -> float | None:
    """Return by how many bits "running" is cheaper than the cheapest failures.

    None if it does not explain every end, or if there is none. That a dump is not there
    is as likely in either, so unseen ranks do not count. A slow rank is why a job that
    runs is dumped, and a coincidence in one that fails.
    """
    seen = [told for told in ends if told.end.kind != "unseen"]
    if not all(any(s.what == "running" for s in told.stories) for told in seen):
        return None
    slow = slow_ranks.tells_why(case.frames)
    # what speaks against a running job counts once, at however many ends
    of_job = weights.bits(running.prior(case)) + weights.bits(
        "long wait", standstill.waited_long(case.frames)
    )
    runs, held = of_job + _of_slow(case), 0.0
    named: dict[tuple[str, str], list[Story]] = {}
    for told in seen:
        on = next(s for s in told.stories if s.what == "running")
        blaming = next(s for s in told.stories if s.what != "running")
        runs += on.cost - of_job
        held = max(held, _holds_slow(case, told.end))
        named.setdefault((blaming.slug, blaming.what), []).append(blaming)
    if not (named or slow):
        return None
    blamed = {r for stories in named.values() for s in stories for r in s.ranks}
    idle = len(unheld(case) - blamed)
    fails = sum(_jointly(case, stories) for stories in named.values())
    runs += weights.bits("slow one waits", held)
    fails += weights.bits("slow before", slow)
    return fails + weights.bits("unexplained idle", min(idle, weights.MOST)) - runs


def _of_slow(case: Case) -> float:
    """Return what it costs that several ranks are slow, and not one or a host."""
    slow = slow_ranks.slow(case.frames)
    if slow is None or not slow.is_named:
        return 0.0
    return sum(weights.bits(name, times) for name, times in culprits(case, slow.ranks))


def _holds_slow(case: Case, end: End) -> float:
    """Return how often a slow rank comes last that waits for others at an end now."""
    slow = slow_ranks.slow(case.frames)
    if slow is None or not {*slow.ranks} <= end.blocked - {*end.ranks}:
        return 0.0
    together = any(not case.calls[n]["is_p2p"] for n in end.calls)
    return slow.last / slow.meetings if together else 0.0


def unheld(case: Case) -> frozenset[int]:
    """Return the live ranks between two calls that no message can hold, either.

    Messages that a recorder leaves out may hold a rank.
    """
    return ends_.between_calls(case) - case.ended - case.mute


def _jointly(case: Case, stories: Sequence[Story]) -> float:
    """Return the cost of stories of one class as one failure of all their ranks."""
    ranks = tuple(sorted({rank for story in stories for rank in story.ranks}))
    alone = (s.cost - replace(s, costs=culprits(case, s.ranks)).cost for s in stories)
    joined = replace(stories[0], ranks=ranks, costs=culprits(case, ranks))
    return max(alone) + joined.cost
