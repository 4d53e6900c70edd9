"""Findings on ranks that left no evidence and that all others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.traces import call_summary
from ncclforensics.evidence import common
from ncclforensics.model.actions import Action
from ncclforensics.theory import standstill, wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Cite, Finding
    from ncclforensics.model.frames import Frames

# of ranks of which there is no dump
GONE = ("crashed-rank", "missing-rank", "node-lost")
REMEDY = (
    Action("find the log and the dump of {who}, and its process: is it alive?"),
    Action("dmesg -T | tail -n 100", at="host"),
)
HOST = (
    Action("scontrol show node {host}   # or: kubectl describe node {host}"),
    Action("ping -c 3 {host}   # and its BMC's event log"),
)


def uncollected(frames: Frames) -> tuple[int, ...]:
    """Return the members without a dump, if dumps are the only evidence.

    Dumps are taken because a job hangs, and no other evidence says that it went well.
    """
    if frames["events"].height or not frames.has("entries"):
        return ()
    seen = call_summary.dumps(frames)["rank"].drop_nulls()
    members = frames["groups"]["members"].explode().drop_nulls().unique().sort()
    return tuple(members.filter(~members.is_in(seen.implode())))


def awaited(frames: Frames) -> tuple[tuple[int, ...], tuple[Cite, ...]]:
    """Return the ranks without a dump that all waits lead to, and who waits for them.

    That a process died, of whatever rank, supports these stories: they need not be sure
    enough to be told by themselves.
    """
    dumped = {*call_summary.dumps(frames)["rank"].drop_nulls()}
    lost = [
        told
        for told in weighed(frames).ends
        if told.story.slug in GONE and dumped.isdisjoint(told.story.ranks)
    ]
    calls = [call for told in lost if (call := told.story.call) is not None]
    ranks = {rank for told in lost for rank in told.story.ranks}
    cites = [cite for call in calls for cite in wording.waiting(frames, call)]
    return tuple(sorted(ranks)), tuple(cites)


def findings(frames: Frames, slug: str) -> Iterator[Finding]:
    """Yield a class's findings on lost ranks, if the job is known to stand still."""
    if standstill.standing(frames).answer != "yes":
        return
    for told in weighed(frames).of(slug):
        call, ranks = told.story.call, told.story.ranks
        assert call is not None
        failing = common.collective(frames, call)
        who = common.ranks(ranks)
        pronoun = "it" if len(ranks) == 1 else "them"
        silent = told.story.what == "silent"
        left = "fell silent and left no dump" if silent else "left no dump and no log"
        gone = (
            "which logged nothing more and left no dump, although all others did: "
            "their host is gone"
            if silent
            else "of which there is no dump and no log line: it died, or its files "
            "were not collected"
        )
        yield wording.finding(
            frames,
            told,
            f"{who} {left}, and all others wait for {pronoun}",
            f"{wording.spread(frames, call, len(told.end.blocked))} All waits "
            f"lead to {who}, {gone}. The call is {common.call_words(failing)}.",
            HOST if silent else REMEDY,
            wording.waiting(frames, call),
        )
