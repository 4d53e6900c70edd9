"""One rank's GPU is stuck in a call that its peers have finished.

What it means
    The host side of the rank goes on and enqueues call after call, but its stream does
    not advance: the GPU hangs in a kernel, fell off the bus, or lost its link. Its
    peers finished that call with the data it had already sent, and now wait for it in a
    later call.

How we know
    All waits lead to a call that some members have completed and this rank has not, and
    it waits for nobody there. With TORCH_NCCL_ENABLE_TIMING=1, also: all members have
    enqueued a call, the peers' GPUs have started it, and this rank's GPU has not,
    although nothing before it is unfinished. If no member's GPU has started it, all of
    them have stopped, as those of a host do. A broadcast or another rooted operation
    counts against this class, because its root may leave first, unless peers are known
    to have gone past the next call.

What to do
    Check the GPU of the named rank on its host: `dmesg -T | grep -i xid`,
    `nvidia-smi -q -d ECC` and `nvidia-smi -q -d PERFORMANCE`. Drain the host and rerun
    without it.

Looks like
    Ordinary skew between ranks is a matter of milliseconds and ends by itself: where
    nothing proves that the job stands still, a rank that is a few calls behind is no
    more than `possible`. Several in different calls that make no host or group are as
    likely those of a running job, and are not named, nor is one for which nobody waits.
    A rank that enqueued nothing more is `missing-rank`: its host side is stuck.
    If only some ranks left log lines, the rank that holds up the call may be one of the
    others.

References
    torch.distributed Flight Recorder tutorial; NVIDIA Xid errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.actions import NATIVE_STACK, XIDS, Action
from ncclforensics.theory import wording
from ncclforensics.theory.weigh import weighed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "runtime"
NEEDS = ("standings",)
MISSING, NEXT_TIME = wanted.DUMPS
EXPLAINS = (
    *("missing-rank", "timeout-masking", "crashed-rank", "unmatched-p2p"),
    "stuck-in-collective",
)
SPREADS = True

REMEDY = (
    XIDS,
    Action("nvidia-smi -q -d ECC,PERFORMANCE,PAGE_RETIREMENT", at="host"),
    NATIVE_STACK,
)


DID = {
    "stalled": "not finished an earlier call, although the peers have",
    "unbegun": "not begun that call on the GPU, nor has any other member",
    "": "not begun that call on the GPU, although the peers have",
}


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that have not finished, or begun, a call as their peers have."""
    found = weighed(frames).together("gpu-stall")
    for told in found[:1]:
        call = told.story.call
        assert call is not None
        ranks = tuple(sorted({rank for f in found for rank in f.story.ranks}))
        failing = common.collective(frames, call)
        own = (
            frames["standings"]
            .filter(pl.col("rank").is_in(ranks) & pl.col("waits_in").is_not_null())
            .sort("place")
            .unique("rank", keep="first", maintain_order=True)
        )
        who = common.ranks(ranks)
        did, one = DID.get(told.story.what, DID[""]), len(ranks) == 1
        have = "has" if one else "have"
        own_gpu = "its own GPU makes" if one else "their own GPUs make"
        yield wording.finding(
            frames,
            told,
            f"{who} stopped completing calls before {common.call_words(failing)}",
            f"{wording.spread(frames, call, len(told.end.blocked))} "
            f"{who.capitalize()} {have} {did}: {own_gpu} no progress.",
            REMEDY,
            (
                *wording.cites(own, "has not finished"),
                *wording.waiting(frames, call),
            ),
            ranks=ranks,
            first_seen=common.first_seen(own),
        )
