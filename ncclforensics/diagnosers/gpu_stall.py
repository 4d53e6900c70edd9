"""One rank's GPU is stuck in a call that its peers have finished.

What it means
    The host side of the rank goes on and enqueues call after call, but its stream does
    not move: the GPU hangs in a kernel, fell off the bus, or lost its link. Its peers
    finished that call with what it had sent, and now wait for it in a later one.

How we know
    In Flight Recorder dumps of one group, this rank's first unfinished call is older
    than its peers': they completed what it did not, and it waits for nobody.

What to do
    Ask the GPU of the named rank: `dmesg -T | grep -i xid`, `nvidia-smi -q -d ECC` and
    `nvidia-smi -q -d PERFORMANCE` on its host. Drain the host and rerun without it.

Looks like
    Ordinary skew between ranks is a matter of milliseconds and ends by itself.
    A rank that enqueued nothing more is `missing-rank`: its host side is stuck.

References
    torch.distributed Flight Recorder tutorial; NVIDIA Xid errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import common, roots
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "runtime"
NEEDS = ("standings",)
MISSING = "no Flight Recorder dump, and no line that says how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("missing-rank", "timeout-masking", "crashed-rank", "unmatched-p2p")
SPREADS = True

# operations that some members can finish before others have begun
ROOTED = r"(?i)^_?(?:broadcast|reduce|gather|scatter|send|recv|coalesced)(?:_oop)?$"

REMEDY = (
    "dmesg -T | grep -i xid                     # on the host of the named rank",
    "nvidia-smi -q -d ECC,PERFORMANCE,PAGE_RETIREMENT",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the roots that are in a call which their peers have finished."""
    for call, stalled, blocked in roots.by_call(frames, "stalled"):
        ranks = _proven(frames, stalled)
        if not ranks or roots.is_majority(call, ranks):
            continue
        failing = common.collective(frames, call)
        own = (
            frames["standings"]
            .filter(pl.col("rank").is_in(ranks) & pl.col("waits_in").is_not_null())
            .sort("place")
            .unique("rank", keep="first", maintain_order=True)
        )
        who = common.plural("rank", ranks)
        yield Finding(
            slug="gpu-stall",
            confidence="likely",
            headline=f"{who} stopped completing calls before "
            f"{common.call_words(failing)}",
            evidence=(
                *roots.cites(own, "has not finished"),
                *roots.waiting(frames, call),
            ),
            explanation=f"{roots.spread(call, failing, blocked)} {who.capitalize()} is "
            "still in an earlier call, which its peers have finished: its own GPU does "
            "not move.",
            remedy=REMEDY,
            ranks=ranks,
            hosts=common.hosts_of(frames, ranks),
            devices=common.devices_of(frames, ranks),
            collective=failing,
            first_seen=common.first_seen(own),
        )


def _proven(frames: Frames, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Keep the ranks whose call no peer could have finished without them."""
    held = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & pl.col("waits_in").is_not_null()
    )
    first = held.sort("place").unique("rank", keep="first", maintain_order=True)
    return common.numbers(first.filter(~pl.col("op").str.contains(ROOTED))["rank"])
