"""A send without its receive, or a receive without its send.

What it means
    Point-to-point calls match by source, destination and order. One side posted its
    half and waits; the other never posts the one that would match.

How we know
    A rank is held up in a send or recv whose other side is in no call at all and has
    not posted its half. The side that did not post is named.

What to do
    Compare the schedules of the two stages at the call site: micro-batch counts, the
    order of send and recv, a condition on the stage.

Looks like
    A pair that only waits for its pipeline stage: there the other side is itself held
    up in another call, and the root lies where that leads.

References
    torch.distributed.send, recv and batch_isend_irecv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.diagnosers import common, roots
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "desync"
NEEDS = ("collectives",)
MISSING = "no Flight Recorder dump"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank", "missing-rank")
SPREADS = True

REMEDY = ("compare the order of sends and receives of both ranks at the call site",)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the side of a P2P call that posted nothing and waits for nobody."""
    for call, ranks, blocked in roots.by_call(frames, "absent"):
        if not call["is_p2p"]:
            continue
        failing = common.collective(frames, call)
        who = common.plural("rank", ranks)
        other = "recv" if failing.op == "send" else "send"
        peer = common.plural("rank", call["waiting"])
        yield Finding(
            slug="unmatched-p2p",
            confidence="likely",
            headline=f"{who} never posted the {other} that {peer} waits for",
            evidence=roots.waiting(frames, call),
            explanation=f"{roots.spread(call, failing, blocked)} {who.capitalize()} "
            f"posted no {other} for it and waits for nobody.",
            remedy=REMEDY,
            ranks=ranks,
            hosts=common.hosts_of(frames, ranks),
            devices=common.devices_of(frames, ranks),
            collective=failing,
            first_seen=roots.onset(frames, call),
        )
