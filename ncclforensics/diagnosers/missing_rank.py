"""A rank never made the call that its peers wait in.

What it means
    Every member of a process group has to make each collective. One rank did not come:
    it sits in other code (a checkpoint, a data loader, a lock), left its loop, or died.
    Its peers wait until a timeout and then report an error each; it reports none.

How we know
    Peers wait in SeqNum N of a group, and this rank's last call there is older; it
    waits in no group itself, so the others hang on it, directly or through ranks that
    wait in other groups. From Flight Recorder dumps, from `last enqueued work` of the
    watchdogs, or because a line names it: monitoredBarrier, the desync report, a store
    barrier's `missing_ranks`, a communicator that all but one rank began to build.

What to do
    Look at that rank's log and its stack (`py-spy dump --pid PID` while it hangs) at
    the call site that the report names. Keep dumps for the next time with
    TORCH_FR_BUFFER_SIZE=2000, and raise the timeout only where the rank is known to be
    slow for a reason.

Looks like
    A rank that waits in another group is an echo: it came late because it waits itself.
    A rank whose dump was lost is unseen, and nobody can say that it was absent.
    A rank that died is `crashed-rank`, which explains its absence.

References
    torch.distributed Flight Recorder tutorial; torch.distributed.monitored_barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.diagnosers import common, roots
from ncclforensics.diagnosers.named_missing import named
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "desync"
NEEDS = ("standings", *("c10d.", "nccl.init."))
MISSING = "no Flight Recorder dump, and no line that says how far a rank came"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = ("timeout-masking", "crashed-rank")
SPREADS = True

REMEDY = (
    "read that rank's own log, and its stack while it hangs: py-spy dump --pid PID",
    "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the absent roots of the wait graph, one finding per call."""
    found = False
    for call, ranks, blocked in roots.by_call(frames, "absent"):
        if call["is_p2p"] or roots.is_majority(call, ranks):
            continue
        found = True
        yield _finding(frames, call, ranks, blocked)
    if not found:
        yield from named(frames)


def _finding(
    frames: Frames, call: dict[str, Any], ranks: tuple[int, ...], blocked: int
) -> Finding:
    failing = common.collective(frames, call)
    own = frames["standings"].filter(
        pl.col("rank").is_in(ranks) & (pl.col("group") == call["group"])
    )
    last = common.numbers(own["enqueued"])
    reached = f"its last call there is SeqNum={last[-1]}" if last else "it made none"
    who = common.plural("rank", ranks)
    return Finding(
        slug="missing-rank",
        confidence="certain",
        headline=f"{who} never joined {common.call_words(failing)}",
        evidence=(*roots.waiting(frames, call), *roots.cites(own, "came as far as")),
        explanation=f"{roots.spread(call, failing, blocked)} {who.capitalize()} did "
        f"not make that call ({reached}), and none of its own holds it up: the others "
        "hang on it.",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=roots.onset(frames, call),
    )
