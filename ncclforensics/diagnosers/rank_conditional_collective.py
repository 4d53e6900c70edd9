"""Some ranks make a call that the others never make at all.

What it means
    A collective stands behind a condition that is true on a few ranks only: evaluation,
    logging or saving on rank 0, an early stop that not all ranks see. The ranks that
    make the call wait in it; the others have gone on, or finished.

How we know
    Fewer ranks wait in the call than are absent from it, and the absent ones are in no
    trouble of their own. Or the others wait for these ranks elsewhere, in a circle, and
    have never made this call in a history that holds a whole step of theirs; in the
    program's order they are past it. The ranks that make the call are named. Without
    dumps: every rank timed out, and by its traceback one did so at another place.

What to do
    Move the collective out of the condition, or let every rank take the branch. Check
    `if rank == 0:` blocks for metrics, barriers and state_dict calls of sharded models.

Looks like
    One absent rank among many is `missing-rank`: there the few are the ones stuck.
    A rank that has left its loop and waits at the end of it is `uneven-inputs`.

References
    torch.distributed: all ranks must make the same calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ncclforensics.diagnosers.clues import (
    common,
    divergence,
    programs,
    roots,
    signatures,
    spied,
    timed_out_at,
)
from ncclforensics.findings import Collective, Finding, NotChecked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "desync"
NEEDS = ("standings", timed_out_at.TIMEOUT)
MISSING = "no dump, and no line of how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p"),
    *("collective-mismatch", "shape-mismatch", "stuck-in-collective"),
)
SPREADS = True

REMEDY = (
    "look for a condition on the rank around the call site that is named",
    "move the collective out of the condition, or let every rank take the branch",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the few that wait in a call which most members never made."""
    for call, absent, _ in roots.by_call(frames, "absent"):
        if call["is_p2p"] or not roots.is_majority(frames, call, absent):
            continue
        ranks = tuple(call["waiting"])
        if (
            ranks
            and not call["unseen"]
            and not programs.made_before(frames, call, absent)
        ):
            told = f"{len(absent):,} other members never made it, and wait for nobody."
            yield _finding(frames, call, ranks, told)
    for found in divergence.divergences(frames):
        if found.kind == "conditional":
            told = "the others never made it" + divergence.elsewhere(frames, found)
            yield _finding(frames, found.call, found.odd, told)
    for split in signatures.strays(frames, "conditional"):
        who = common.plural("rank", split.strays)
        what = common.call_words(split.call)
        yield signatures.stray(
            frames,
            split,
            "rank-conditional-collective",
            f"{who} alone made {what}",
            f"{what} was made by {who} in place of calls of other groups; the others "
            "are in another call there, and came to it as always.",
            REMEDY,
        )
        return
    if frames["standings"].is_empty():
        yield from _at_another_place(frames)


def _at_another_place(frames: Frames) -> Iterator[Statement]:
    """Find the one rank that timed out at another place of the code than all others."""
    sites = timed_out_at.apart(frames)
    if sites.is_empty():
        yield NotChecked("rank-conditional-collective", MISSING, NEXT_TIME)
        return
    ranks, others = common.numbers(sites["rank"][:1]), sites.height - 1
    here, there = sites["site"].head(2)
    who = common.plural("rank", ranks)
    yield Finding(
        slug="rank-conditional-collective",
        confidence="likely",
        headline=f"{who} waited at {here}, all {others:,} others at {there}",
        evidence=common.cites(sites),
        explanation=f"Every rank timed out, so nobody was absent: {who} waited in a "
        f"call at {here}, and all {others:,} others in one at {there}. It makes a call "
        "that they do not, or none that they make; or it left a loop before them.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=Collective(call_site=here),
        first_seen=common.first_seen(sites),
    )


def _finding(
    frames: Frames, call: dict[str, Any], ranks: tuple[int, ...], told: str
) -> Finding:
    failing = common.collective(frames, call)
    who = common.plural("rank", ranks)
    return Finding(
        slug="rank-conditional-collective",
        confidence="likely",
        headline=f"{who} alone made {common.call_words(failing)}",
        evidence=roots.waiting(frames, call, ranks),
        explanation=f"{common.call_words(failing)} was made by {who} alone; {told}"
        + roots.others_behind(frames, ranks)
        + spied.at_work(frames, call["absent"]),
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=roots.onset(frames, call, ranks),
    )
