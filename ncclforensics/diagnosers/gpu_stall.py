"""One rank's GPU is stuck in a call that its peers have finished.

What it means
    The host side of the rank goes on and enqueues call after call, but its stream does
    not move: the GPU hangs in a kernel, fell off the bus, or lost its link. Its peers
    finished that call with what it had sent, and now wait for it in a later one.

How we know
    In Flight Recorder dumps of one group, this rank's first unfinished call is older
    than its peers': they completed what it did not, and it waits for nobody. With
    TORCH_NCCL_ENABLE_TIMING=1, also: all have enqueued a call, the peers' GPUs have
    begun it and this one's has not, with nothing before it unfinished.

What to do
    Ask the GPU of the named rank: `dmesg -T | grep -i xid`, `nvidia-smi -q -d ECC` and
    `nvidia-smi -q -d PERFORMANCE` on its host. Drain the host and rerun without it.

Looks like
    Ordinary skew between ranks is a matter of milliseconds and ends by itself: where
    nothing but dumps shows a failure, a rank that is a few calls behind is not named.
    A rank that enqueued nothing more is `missing-rank`: its host side is stuck.
    Where lines tell of some ranks only, the one that holds it up may be another.

References
    torch.distributed Flight Recorder tutorial; NVIDIA Xid errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.correlate import outline
from ncclforensics.correlate.standings import grouped
from ncclforensics.diagnosers.clues import common, latecomers, roots, unrecorded
from ncclforensics.findings import Finding
from ncclforensics.tables import done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "runtime"
NEEDS = ("standings",)
MISSING = "no dump, and no line of how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = (
    *("missing-rank", "timeout-masking", "crashed-rank", "unmatched-p2p"),
    "stuck-in-collective",
)
SPREADS = True

# operations that some members can finish before others have begun
ROOTED = r"(?i)^_?(?:broadcast|reduce|gather|scatter|send|recv|coalesced)(?:_oop)?$"

REMEDY = (
    "dmesg -T | grep -i xid                     # on the host of the named rank",
    "nvidia-smi -q -d ECC,PERFORMANCE,PAGE_RETIREMENT",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the roots that are in a call which their peers have finished, or begun.

    Gloo's calls run on no GPU, and peers of one that came too late gave up on it.
    """
    if latecomers.latecomers(frames).height:
        return
    found = [
        (call, ranks, blocked)
        for call, stalled, blocked in roots.by_call(frames, "stalled", "unstarted")
        if (ranks := _proven(frames, stalled))
        and not roots.is_majority(frames, call, ranks)
        and not unrecorded.is_gloo(frames, call)
    ]
    found = [told for told in found if not _partly_seen(frames, told[0])]
    if not found:
        return
    call, first, blocked = found[0]
    named = {rank for _, some, _ in found for rank in some}
    ranks = tuple(sorted({*named, *_proven(frames, _beside(frames))}))
    failing = common.collective(frames, call)
    own = (
        frames["standings"]
        .filter(pl.col("rank").is_in(ranks) & pl.col("waits_in").is_not_null())
        .sort("place")
        .unique("rank", keep="first", maintain_order=True)
    )
    who = common.plural("rank", ranks)
    begun = set(ranks) <= set(call["unstarted"] or ())
    told = (
        "has not begun that call on its GPU, where its peers have"
        if begun
        else "is still in an earlier call, which its peers have finished"
    )
    yield Finding(
        slug="gpu-stall",
        confidence="likely",
        headline=f"{who} stopped completing calls before {common.call_words(failing)}",
        evidence=(
            *roots.cites(own, "has not finished"),
            *roots.waiting(frames, call),
        ),
        explanation=f"{roots.spread(frames, call, first, blocked)} {who.capitalize()} "
        f"{told}: its own GPU does not move.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=common.first_seen(own),
    )


def _beside(frames: Frames, alone: bool = False) -> tuple[int, ...]:
    """Return the ranks, or those `alone`, in a call which all others have finished.

    Nobody may have come as far as to wait for them.
    """
    states = ("behind", "absent", "unseen", "unstarted")
    over = ~pl.col("is_p2p").fill_null(False) & (pl.col("done").list.len() > 0)
    for state in states:
        over &= pl.col(state).list.len() == 0
    if alone:
        batch = pl.col("op").str.contains("coalesced").fill_null(True)
        over &= (pl.col("waiting").list.len() == 1) & ~batch
    return common.numbers(frames["calls"].filter(over)["waiting"].explode())


def _partly_seen(frames: Frames, call: dict[str, Any]) -> bool:
    """Whether lines alone tell of it, and not of all ranks below the highest one.

    Data passes from rank to rank: an unseen one may hold up whoever it sends to.
    """
    if frames.has("collectives") or call["pg_desc"] != "default_pg":
        return False
    seen = frames["standings"].filter(pl.col("group") == call["group"])["rank"]
    return seen.n_unique() <= int(str(seen.max() or 0))


def _proven(frames: Frames, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Keep the ranks whose call no peer could have finished without them.

    Nor could it have finished a later one of that group that needs all members. What
    one member alone has not finished, nobody else holds up, whatever the operation.
    """
    begun = frames["roots"].filter(pl.col("why") == "unstarted")["rank"]
    held = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & pl.col("waits_in").is_not_null()
    )
    first = held.sort("place").unique("rank", keep="first", maintain_order=True)
    rooted = pl.col("op").str.contains(ROOTED) & ~pl.col("rank").is_in(begun.implode())
    together = outline.outline(frames).filter(
        done() & ~pl.col("op").str.contains(ROOTED)
    )
    named = grouped(together, frames["group_names"]).group_by("group")
    over = named.agg(pl.col("seq").max().alias("over"))
    told = first.join(over, on="group", how="left")
    later = (pl.col("over") > pl.col("waits_in")).fill_null(False)
    last = pl.col("rank").is_in(_beside(frames, alone=True))
    return common.numbers(told.filter(~rooted | later | last)["rank"])
