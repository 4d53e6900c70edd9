"""One rank's watchdog stood still: a thread holds the GIL, or hangs in a CUDA call.

What it means
    The watchdog of ProcessGroupNCCL watches the calls, and another thread watches it.
    That thread found it stuck, on this rank alone: it waits for Python's lock, which a
    thread that sits in CUDA or in a C extension does not give back.

How we know
    `watchdog got stuck for N seconds` or `Heartbeat monitor timed out!` on one rank of
    many, and `Could not acquire GIL` beside it. Without the last it may as well be a
    CUDA or NCCL call that hangs, and it is said less strongly.

What to do
    Look at its stacks while it hangs, native frames too: `py-spy dump --native --pid
    PID`. Look for CUDA calls in __del__, in a DataLoader's thread, in a logger.

Looks like
    The same lines on most ranks: then all wait in one call, and nobody's lock is at
    fault. A rank whose own collective timed out before is a victim. `Could not acquire
    GIL` alone is printed at many an ordinary teardown.

References
    torch ProcessGroupNCCL heartbeat monitor; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import common
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.tables import Frames

FAMILY = "runtime"
NEEDS = ("events",)
MISSING = "no log of a rank"
NEXT_TIME = "keep stderr of every rank: torchrun --log-dir DIR --redirects 3"
EXPLAINS = ("missing-rank", "timeout-masking", "crashed-rank", "gpu-stall")
SPREADS = False

STUCK = ("c10d.heartbeat.stuck", "c10d.heartbeat.timeout")
TIMEOUTS = ("c10d.watchdog.timeout", "c10d.watchdog.status", "c10d.dump.requested")
MANY = 0.25  # of the ranks seen; more of them stuck is one call that all wait in


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the one rank whose watchdog stood still."""
    lines = frames.message(*STUCK)
    ranks = common.numbers(lines["rank"])
    if not ranks or lines["rank"].null_count():
        return
    timed_out = common.numbers(frames.message(*TIMEOUTS)["rank"])
    ranks = tuple(rank for rank in ranks if rank not in timed_out)
    seen = _seen(frames)
    if not ranks or (len(ranks) > 1 and len(ranks) > MANY * seen):
        return
    lines = lines.filter(pl.col("rank").is_in(list(ranks)))
    gil = frames.message("c10d.gil").filter(pl.col("rank").is_in(list(ranks)))
    who = common.plural("rank", ranks)
    yield Finding(
        slug="gil-deadlock",
        confidence="likely" if gil.height else "possible",
        headline=f"the watchdog of {who} stood still"
        + (": the GIL was not given back" if gil.height else ""),
        evidence=common.cites(
            pl.concat([f.select("text", "source", "line") for f in (lines, gil)])
        ),
        explanation=f"The monitor of {who} killed its process because the watchdog "
        "made no progress. "
        + (
            "A thread holds Python's lock."
            if gil.height
            else "A thread may hold Python's lock, or a CUDA or NCCL call does not "
            "come back; nothing here tells which."
        ),
        remedy=(
            "py-spy dump --native --pid <pid>   # on that host, at the next hang",
            "export TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN=1   # its C++ stacks",
            "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800   # if it was only slow",
        ),
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks) or common.strings(lines["host"]),
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _seen(frames: Frames) -> int:
    """Return how many ranks there are, as far as the evidence knows."""
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    world = inits["nranks"].max() if "nranks" in inits.columns else None
    return max(frames["ranks"].height, int(str(world or 0)))
