"""What heartbeat monitors report: on which rank the watchdog was stuck.

The monitor is a thread that watches the watchdog. If it fires on one rank of many, that
rank's watchdog waits for Python's lock (the GIL), or for a CUDA call that does not
return. If it fires on most ranks, all of them wait in one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model.actions import NATIVE_STACK, OWN_LOG
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.frames import Frames

STUCK = ("c10d.heartbeat.stuck", "c10d.heartbeat.timeout")
TIMEOUTS = ("c10d.watchdog.timeout", "c10d.watchdog.status", "c10d.dump.requested")
OBSERVED = "c10d.dump.observed"
DUMPING = "c10d.dump.preparing"
MANY = 0.25  # share of the ranks seen; if more are stuck, all wait in one call


def stuck(frames: Frames) -> Iterator[Finding]:
    """Yield a finding on the few ranks whose watchdog made no progress."""
    lines = frames.message(*STUCK)
    ranks = common.numbers(lines["rank"])
    if not ranks or lines["rank"].null_count():
        return
    timed_out = common.numbers(frames.message(*TIMEOUTS)["rank"])
    ranks = tuple(rank for rank in ranks if rank not in timed_out)
    seen = _seen(frames)
    # a rank that dumps for no reported reason may have lost its monitor's line
    explained = {*ranks, *timed_out, *common.numbers(frames.message(OBSERVED)["rank"])}
    others = set(common.numbers(frames.message(DUMPING)["rank"])) - explained
    many = len(ranks) + len(others)
    if not ranks or (many > 1 and many > MANY * seen):
        return
    lines = lines.filter(pl.col("rank").is_in(list(ranks)))
    gil = frames.message("c10d.gil").filter(pl.col("rank").is_in(list(ranks)))
    if gil.is_empty() and seen <= len(ranks):
        return  # no other rank is seen: all may be stuck
    who = common.ranks(ranks)
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
            OWN_LOG,
            NATIVE_STACK,
            "export TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN=1   # its C++ stacks",
            "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800   # if it was only slow",
        ),
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks) or common.hosts(lines["host"]),
        devices=common.devices_of(frames, ranks),
        first_seen=common.first_seen(lines),
    )


def _seen(frames: Frames) -> int:
    """Return how many ranks there are, as far as the evidence shows."""
    inits = frames.message("nccl.init.start", "nccl.init.complete")
    world = inits["nranks"].max() if "nranks" in inits.columns else None
    return max(frames["ranks"].height, int(str(world or 0)))
