"""One rank ran out of data, left its loop early, and its peers wait in a step.

What it means
    The ranks have different numbers of batches. The one with the fewest leaves the
    loop and goes to what comes after it, an end-of-epoch barrier or the end of the
    program; its peers wait for it in a collective of a step that it will never take.

How we know
    A rank waits in a call that comes behind the loop, while the others wait for it in a
    call of the loop. That the call lies behind the loop is told by the order of earlier
    calls (it was made after the loop's, and never within), by the place in the code
    (above the function in which the loop's calls part, or in one that ends an epoch),
    or because it is a barrier; what tells otherwise counts against it. Or the agent
    lists every other rank as failed and
    this one not, which ended in peace, and its peers timed out in a collective, or all
    say that a peer is gone.

What to do
    Give every rank the same number of batches (`DistributedSampler(drop_last=True)`, a
    step count agreed by all_reduce), or wrap the loop in `torch.distributed.algorithms.
    join.Join`.

Looks like
    A rank that crashed early is `crashed-rank`: it has an exception or an exit code.
    A few ranks that make an extra call in the middle are
    `rank-conditional-collective`.

References
    torch.distributed.algorithms.join; torch.utils.data.DistributedSampler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate import ends, job
from ncclforensics.evidence import (
    common,
    deaths,
    lost_peers,
    teardown,
    unlisted,
)
from ncclforensics.findings import Collective, Finding
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Cite, Statement
    from ncclforensics.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = ("standings", "calls", "exits")
MISSING = "no dump, and no agent that lists how each rank ended"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "missing-rank", "unmatched-p2p"),
    *("collective-mismatch", "shape-mismatch", "stuck-in-collective"),
)
SPREADS = True

REMEDY = (
    "give every rank the same number of batches: DistributedSampler(drop_last=True)",
    "or wrap the loop in torch.distributed.algorithms.join.Join",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that wait after their loop, or ended in peace before the rest."""
    found = weighed(frames).joined("uneven-inputs")
    if (told := found) is not None:
        yield _after_the_loop(frames, told)
    if found is None:
        yield from _in_peace(frames)


def _after_the_loop(frames: Frames, told: Told) -> Finding:
    end = told.story.call
    assert end is not None
    step = next((c for c in told.story.others if not c["is_p2p"]), end)
    waits = common.collective(frames, step)
    reached = common.collective(frames, end)
    who = common.plural("rank", told.story.ranks)
    site = f" at {reached.call_site}" if reached.call_site else ""
    return wording.finding(
        frames,
        told,
        f"{who} left the loop early, others wait in {common.call_words(waits)}",
        f"{who.capitalize()} came to {common.call_words(reached)}{site} from behind "
        f"the loop{wording.elsewhere(frames, told)}"
        f"{wording.others_behind(frames, told.story.ranks)}",
        REMEDY,
        (
            *(wording.waiting(frames, end, told.story.ranks) or told.cites),
            *wording.waiting(frames, step),
        ),
        collective=waits,
        first_seen=wording.onset(frames, step),
    )


def _in_peace(frames: Frames) -> Iterator[Finding]:
    """Find the ranks that no agent lists as failed, where it lists all others."""
    ranks, listed = unlisted.unlisted(frames)
    if not ranks:
        return
    # for whom a fault of its own took, the others wait as well
    faults = frames["exits"].filter(pl.col("code").is_in(teardown.FAULTS))
    fell = set(common.numbers(faults["rank"]))
    calls = [
        call
        for call in frames["calls"].to_dicts()
        if not call["is_p2p"]
        and set(ranks) <= {*call["absent"], *call["unseen"]}
        and set(call["waiting"]) <= listed
        and not {*call["absent"], *call["unseen"]} & fell
    ]
    if calls:
        call = max(calls, key=lambda c: len(c["waiting"]))
        yield _early(
            frames,
            ranks,
            common.collective(frames, call),
            wording.waiting(frames, call),
            wording.onset(frames, call),
        )
    elif (lost := _lost(frames, listed)) is not None:
        first = common.first_seen(frames["exits"].drop_nulls("t"))
        yield _early(frames, ranks, Collective(), common.cites(lost), first)


def _lost(frames: Frames, listed: set[int]) -> pl.DataFrame | None:
    """Return the lines of those who lost a peer, if nobody says anything else.

    A rank with an error of its own would have ended before the others, too.
    """
    shouting = job.failing(frames)
    lost = shouting.filter(pl.col("message").is_in(lost_peers.GONE)).drop_nulls("rank")
    spoke = set(common.numbers(lost["rank"]))
    other = shouting.filter(
        ~pl.col("message").is_in((*lost_peers.GONE, "python.traceback"))
    )
    ended = ends.by_themselves(frames)
    own = set(common.numbers(ended["rank"]))
    heard = spoke and spoke <= listed and own <= spoke
    raised = deaths.of_own(frames)
    return lost if heard and other.is_empty() and raised.is_empty() else None


def _early(
    frames: Frames,
    ranks: tuple[int, ...],
    step: Collective,
    evidence: tuple[Cite, ...],
    first: int | None,
) -> Finding:
    who = common.plural("rank", ranks)
    verb = "is" if len(ranks) == 1 else "are"
    peace = "it ended" if len(ranks) == 1 else "they ended"
    call = common.call_words(step)
    wait = f"others wait in {call}" if step.op else "others lost it in a call"
    return Finding(
        slug="uneven-inputs",
        confidence="likely",
        headline=f"{who} ended in peace, {wait}",
        evidence=evidence,
        explanation=f"{who.capitalize()} {verb} not among the ranks that the agent saw "
        f"fail, and printed no error: {peace} with exit code 0, and the others were "
        f"still in {call}.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks) or unlisted.only_host(frames),
        devices=common.devices_of(frames, ranks),
        collective=step,
        first_seen=first,
    )
