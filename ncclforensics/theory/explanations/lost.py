"""Ranks of which nothing was collected: they died, or their files were lost.

Ranks that an agent or srun had to terminate were alive, and did not come. All ranks of
a host that fall silent and leave no dump, although all others do, are a lost host. Of a
rank that a fault ended, the others wait in vain, and its launcher ends those beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.correlate.exits import agent_processes
from ncclforensics.correlate.identity import world
from ncclforensics.correlate.waits import roll_call
from ncclforensics.evidence import seen_places
from ncclforensics.theory import sides
from ncclforensics.theory.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.theory.case import Case
    from ncclforensics.theory.ends import End


def propose(case: Case, end: End) -> Iterator[Story]:
    """Blame the unseen ranks that all ranks at an end wait for; and silent hosts."""
    yield from _fallen(case, end)
    heard = case.heard
    told = end.kind == "absent" or (end.kind == "unseen" and {*end.ranks} & heard)
    host = case.gone_host(end.ranks) if told else ()
    if host:
        yield Story(
            "node-lost",
            host,
            max((case.calls[n] for n in end.calls), key=lambda c: len(c["waiting"])),
            what="silent",
            costs=sides.blame(case, end, "lost", host),
        )
    calls = [c for n in end.calls if (c := case.calls[n])["unseen"]]
    unseen = end.ranks if end.kind == "unseen" else end.unseen
    if end.kind == "absent":
        unseen = tuple(sorted({rank for call in calls for rank in call["unseen"]}))
    if not unseen or not calls:
        return
    call = max(calls, key=lambda c: (not c["is_p2p"], len(c["waiting"]), -c["call"]))
    # a rank that was seen to wait, or timed out itself, is not the culprit
    held = seen_places.held(case.frames) | case.waited
    if not (unseen := tuple(r for r in unseen if r not in held)):
        return
    lived = {*unseen} <= agent_processes.lived(case.frames)
    if lived and roll_call.call(case.frames).apart:
        return  # another rank failed, and these were killed because of it
    # one loss explains all ranks of a host; otherwise each rank is a separate story
    whole = len(unseen) > 1 and case.units.of(unseen, guess=False)[0] == 1
    others = (world.ranks(case.frames) - case.seen - heard) | {*unseen}
    for ranks in [tuple(unseen)] if whole else [(rank,) for rank in unseen]:
        lives = lived or bool({*ranks} & heard)
        gone = "node-lost" if whole else "crashed-rank"
        yield Story(
            "missing-rank" if lives else gone,
            ranks,
            call,
            what="lost",
            costs=(
                ("lost", 1.0),
                ("kin", len(ranks) - 1),
                ("host gone", float(lives and {*ranks} <= {*host})),
                ("uncollected", float(not (lived or others <= {*ranks}))),
                *sides.unexplained(case, end, ()),
            ),
        )


def _fallen(case: Case, end: End) -> Iterator[Story]:
    """Blame ranks that ended by a fault, in the calls of an end that miss them."""
    for number in end.calls:
        call = case.calls[number]
        missed = {*(call["unseen"] or ()), *(call["absent"] or ())}
        if ranks := tuple(sorted(missed & case.fallen)):
            costs = sides.blame(case, end, "died", ranks)
            yield Story("crashed-rank", ranks, call, what="died", costs=costs)
