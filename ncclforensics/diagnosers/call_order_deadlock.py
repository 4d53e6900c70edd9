"""Ranks wait for each other in a cycle, each in a different process group.

What it means
    Two groups share ranks, and the ranks enter the two groups' collectives in different
    orders. One rank waits in the first group for a rank that waits in the second group
    for it. No rank is late, and none can go on. Two ranks that both send before they
    receive deadlock in the same way.

How we know
    The wait-for graph over all groups has a cycle. For one rank of the cycle, the
    earlier calls of all ranks of its role predict the other call first and this rank's
    own call a little later: that rank is named. If no history tells the two orders
    apart, or if every rank sends first, all ranks of the cycle are named.

What to do
    Make every rank enter the groups in the same order. Or give the calls streams and
    async handles of their own that do not depend on each other.

Looks like
    Two absent ranks in two groups are two findings of `missing-rank`: each chain of
    waits ends at one of them, and there is no cycle.
    A cycle closed by a call that the other ranks never make is
    `rank-conditional-collective` or `uneven-inputs`. A cycle closed by a skipped
    message is `unmatched-p2p`.

References
    NCCL user guide, using multiple communicators concurrently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "desync"
NEEDS = ("standings",)
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p")
SPREADS = True

REMEDY = ("make every rank enter these groups in the same order",)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that broke the order, or all of a cycle if none is known to."""
    told = weighed(frames).joined("call-order-deadlock")
    if told is not None:
        story, circle = told.story, {*told.end.ranks}
        assert story.call is not None
        calls = [story.call, *story.others]
        inside = [
            f"{common.ranks(held)} in {common.call_words(what)}"
            + (f" at {what.call_site}" if what.call_site else "")
            for call in calls
            if (held := sorted(circle & {*call["waiting"]}))
            and (what := common.collective(frames, call))
        ]
        who = common.ranks(told.end.ranks)
        odd = common.ranks(story.ranks)
        one = story.ranks != told.end.ranks
        yield wording.finding(
            frames,
            told,
            f"{odd} entered its groups in another order than its peers"
            if one and len(story.ranks) == 1
            else f"{odd} entered their groups in another order than their peers"
            if one
            else f"{who} wait for each other in a circle",
            f"{who.capitalize()} wait for each other in a circle: "
            f"{'; '.join(inside[:6])}."
            + (f" {odd.capitalize()} broke the order of earlier steps." if one else "")
            + wording.others_behind(frames, told.end.ranks),
            REMEDY,
            tuple(
                cite
                for call in calls
                for cite in wording.waiting(
                    frames, call, [r for r in call["waiting"] if r in circle]
                )
            )[:6],
            first_seen=min(
                (t for c in calls if (t := wording.onset(frames, c)) is not None),
                default=None,
            ),
        )
