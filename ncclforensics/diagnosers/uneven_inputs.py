"""One rank ran out of data and left its loop early; its peers wait in a step.

What it means
    The ranks have different numbers of batches. The rank with the fewest leaves the
    loop and goes to what comes after it: an end-of-epoch barrier, or the end of the
    program. Its peers wait for it in a collective of a step that it will never take.

How we know
    A rank waits in a call that comes after the loop, while the others wait for it in a
    call of the loop. Four things show that a call lies after the loop: the order of
    earlier calls (it was made after the loop's calls, and never between them); its
    place in the code (above the function in which the stacks of the loop's calls
    diverge, or in a function that ends an epoch); that it is a barrier; and the rank's
    own last lines, if they say that its epoch is over and those of most ranks do not.
    Evidence to the contrary counts against this class.
    Or a rank exited normally while its peers were in a collective: its exit code is 0,
    or torch warned at its end that the process group was not destroyed, or its agent
    lists every other rank as failed and not this one, or one of its last lines says
    that its data ran out or that it leaves. The peers timed out, or all say that a peer
    is gone.

What to do
    Give every rank the same number of batches (`DistributedSampler(drop_last=True)`, or
    a step count agreed on with all_reduce), or wrap the loop in
    `torch.distributed.algorithms.join.Join`.

Looks like
    A rank that crashed early is `crashed-rank`: it has an exception or an exit code.
    A few ranks that make an extra call in the middle are
    `rank-conditional-collective`.

References
    torch.distributed.algorithms.join; torch.utils.data.DistributedSampler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import clean_exits
from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.last_words import DONE, EPOCH
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import case_of, weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Finding, Statement
    from ncclforensics.model.frames import Frames
    from ncclforensics.theory.weigh import Told

FAMILY = "desync"
NEEDS = ("standings", "calls", "exits")
MISSING, NEXT_TIME = wanted.DUMPS
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
    """Name the ranks that wait after their loop, or that exited before the others."""
    told = weighed(frames).joined("uneven-inputs")
    if told is None:
        return
    if told.story.what == "ended":
        yield _exited(frames, told)
    else:
        yield _after_the_loop(frames, told)


def _after_the_loop(frames: Frames, told: Told) -> Finding:
    end = told.story.call
    assert end is not None
    step = next((c for c in told.story.others if not c["is_p2p"]), end)
    waits = common.collective(frames, step)
    reached = common.collective(frames, end)
    who = common.ranks(told.story.ranks)
    site = f" at {reached.call_site}" if reached.call_site else ""
    return wording.finding(
        frames,
        told,
        f"{who} left the loop early, others wait in {common.call_words(waits)}",
        f"{who.capitalize()} came to {common.call_words(reached)}{site} after its "
        f"loop{wording.elsewhere(frames, told)}"
        f"{wording.others_behind(frames, told.story.ranks)}",
        REMEDY,
        (
            *common.cites(_over(frames, told.story.ranks), 1),
            *(wording.waiting(frames, end, told.story.ranks) or told.cites),
            *wording.waiting(frames, step),
        ),
        collective=waits,
        first_seen=wording.onset(frames, step),
    )


def _over(frames: Frames, ranks: tuple[int, ...]) -> pl.DataFrame:
    """Return the lines in which ranks say that their loop is over."""
    if not {*ranks} <= case_of(frames).over:
        return frames["events"].clear()
    return pl.concat(common.printed(frames, ranks, m) for m in (DONE, EPOCH))


def _exited(frames: Frames, told: Told) -> Finding:
    call, ranks = told.story.call, told.story.ranks
    assert call is not None
    step = common.call_words(common.collective(frames, call))
    said = common.printed(frames, ranks, DONE)
    left = "left its loop" if len(ranks) == 1 else "left their loop"
    found = wording.finding(
        frames,
        told,
        f"{common.ranks(ranks)} {left if said.height else 'exited with code 0'}, "
        f"others wait in {step}",
        _said(ranks, said, step) if said.height else _early(ranks, step),
        REMEDY,
        (*common.cites(said, 2), *wording.waiting(frames, call)),
    )
    ended = common.first_seen(frames["exits"].drop_nulls("t"))
    return replace(
        found,
        hosts=found.hosts or clean_exits.only_host(frames),
        first_seen=ended if found.first_seen is None else found.first_seen,
    )


def _said(ranks: tuple[int, ...], said: pl.DataFrame, call: str) -> str:
    words = str(said["text"][0]).strip()[:120]
    return (
        f"{common.ranks(ranks).capitalize()} printed `{words}`, and neither an error "
        f"nor a timeout, while the others were still in {call}."
    )


def _early(ranks: tuple[int, ...], call: str) -> str:
    are, they = ("is", "it") if len(ranks) == 1 else ("are", "they")
    who = common.ranks(ranks).capitalize()
    return (
        f"{who} {are} not among the ranks that failed, and printed no error: {they} "
        f"exited with code 0 while the others were still in {call}."
    )
