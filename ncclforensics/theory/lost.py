"""What is told of ranks that everybody waits for and of which nothing was collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.evidence import common
from ncclforensics.theory import facts, wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Finding
    from ncclforensics.frames import Frames

REMEDY = (
    "look for the log, the dump and the process of that rank: is it alive?",
    "dmesg -T | tail -n 100                    # on its host",
)


def findings(frames: Frames, slug: str) -> Iterator[Finding]:
    """Yield what a class tells of lost ranks: possible, where the job is known to stand."""
    if facts.standing(frames).answer != "yes":
        return
    for told in weighed(frames).of(slug):
        call, ranks = told.story.call, told.story.ranks
        assert call is not None
        failing = common.collective(frames, call)
        who = common.plural("rank", ranks)
        yield wording.finding(
            frames,
            told,
            f"{who} left nothing, and all others wait for it"
            if len(ranks) == 1
            else f"{who} left nothing, and all others wait for them",
            f"{wording.spread(frames, call, ranks, len(told.end.blocked))} All waits "
            f"lead to {who}, of which there is no dump and no line: gone, or its files "
            "were not collected." + f" The call is {common.call_words(failing)}.",
            REMEDY,
            wording.waiting(frames, call),
        )
