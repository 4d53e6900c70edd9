"""One rank ran out of data, left its loop early, and its peers wait in a step.

What it means
    The ranks have different numbers of batches. The one with the fewest leaves the
    loop and goes to what comes after it, an end-of-epoch barrier or the end of the
    program; its peers wait for it in a collective of a step that it will never take.

How we know
    A rank waits in a call that no rank of the circle has made before, at the end of an
    epoch or a loop, while the others wait for it in a call that it has made in every
    step. Or it took the way out of its loop that all have taken before, where so far
    its way was one that went round. Or the agent lists every other rank as failed and
    this one not, which ended in peace, and its peers timed out in a collective.

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

from ncclforensics.diagnosers.clues import (
    common,
    divergence,
    exits,
    roots,
    signatures,
    teardown,
)
from ncclforensics.findings import Finding
from ncclforensics.tables import FAILING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "desync"
NEEDS = ("standings", "exits")
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
    found = False
    for circle in divergence.divergences(frames):
        if circle.kind == "uneven":
            found = True
            yield _after_the_loop(frames, circle)
    for split in signatures.strays(frames, "uneven"):
        found = True
        who = common.plural("rank", split.strays)
        yield signatures.stray(
            frames,
            split,
            "uneven-inputs",
            f"{who} left the loop early, others are in {split.usual_op} there",
            f"{who.capitalize()} came to {common.call_words(split.call)} from behind "
            f"the loop; the others are in {split.usual_op} of a step.",
            REMEDY,
        )
        break
    if not found:
        yield from _in_peace(frames)


def _after_the_loop(frames: Frames, circle: divergence.Divergence) -> Finding:
    step = next((c for c in circle.others if not c["is_p2p"]), circle.call)
    failing = common.collective(frames, step)
    end = common.collective(frames, circle.call)
    who = common.plural("rank", circle.odd)
    site = f" at {end.call_site}" if end.call_site else ""
    return Finding(
        slug="uneven-inputs",
        confidence="likely",
        headline=f"{who} left the loop early, others wait in "
        f"{common.call_words(failing)}",
        evidence=(
            *roots.waiting(frames, circle.call, circle.odd),
            *roots.waiting(frames, step),
        ),
        explanation=f"{who.capitalize()} waits in {common.call_words(end)}{site}, "
        f"which none of these ranks made before"
        f"{divergence.elsewhere(frames, circle)}"
        f"{roots.others_behind(frames, circle.odd)}",
        remedy=REMEDY,
        ranks=circle.odd,
        hosts=common.hosts_of(frames, circle.odd),
        devices=common.devices_of(frames, circle.odd),
        collective=failing,
        first_seen=roots.onset(frames, step),
    )


def _in_peace(frames: Frames) -> Iterator[Finding]:
    """Find the ranks that no agent lists as failed, where it lists all others."""
    if _list_is_cut(frames):
        return
    # whoever an agent lists has failed, also where the code is lost
    failed = frames["exits"].filter(pl.col("code").ne_missing(0))
    ended = set(common.numbers(failed["rank"]))
    # for whom a fault of its own took, the others wait as well
    faults = failed.filter(pl.col("code").is_in(teardown.FAULTS))
    fell = set(common.numbers(faults["rank"]))
    events = frames["events"]
    failing = events.filter(pl.col("role").is_in(FAILING))
    noisy = set(common.numbers(failing["rank"]))
    spoke = set(common.numbers(frames["ranks"]["rank"]))
    ranks = tuple(sorted(spoke - ended - noisy))
    calls = [
        call
        for call in frames["calls"].to_dicts()
        if not call["is_p2p"]
        and set(ranks) <= {*call["absent"], *call["unseen"]}
        and set(call["waiting"]) <= ended
        and not {*call["absent"], *call["unseen"]} & fell
    ]
    # an entry without a code has lost lines, and the next one may have lost them all
    lost = failed["rank"].null_count() or failed["code"].null_count()
    if lost or exits.is_torn(frames):
        return
    few = ranks and len(ranks) < len(ended) and len(ended | set(ranks)) == len(spoke)
    if not few or not calls or not noisy:
        return
    call = max(calls, key=lambda c: len(c["waiting"]))
    step = common.collective(frames, call)
    who = common.plural("rank", ranks)
    verb = "is" if len(ranks) == 1 else "are"
    yield Finding(
        slug="uneven-inputs",
        confidence="likely",
        headline=f"{who} ended in peace, others wait in {common.call_words(step)}",
        evidence=roots.waiting(frames, call),
        explanation=f"{who.capitalize()} {verb} not among the ranks that the agent saw "
        f"fail, and printed no error: it ended before the others, which wait for it in "
        f"{common.call_words(step)}.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=step,
        first_seen=roots.onset(frames, call),
    )


def _list_is_cut(frames: Frames) -> bool:
    """Whether an agent's file has lost its end, and so perhaps the rest of its list."""
    agents = frames["events"].filter(pl.col("message").str.starts_with("torchelastic."))
    theirs = pl.col("source").is_in(agents["source"].unique().implode())
    return bool(frames["sources"].filter(theirs)["cut"].any())
