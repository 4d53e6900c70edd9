"""One rank came to a call after its peers' timeout: late, but not lost.

What it means
    The rank was at work the whole while: it prepared data, saved a checkpoint, compiled
    a kernel, moved parameters. It came to the collective in the end, when its peers had
    already given it up.

How we know
    All members have made the call, and this rank made it later than the others by more
    than the call's own timeout; clocks are compared by the earlier calls of the group
    that both made. Its own log may say what it did meanwhile.

What to do
    Do the slow work before the first collective, on all ranks at once, or behind a
    barrier of its own with a longer timeout (`init_process_group(timeout=…)`).

Looks like
    `missing-rank` never arrives. A clock that is wrong makes every call of a host late,
    not one.

References
    torch.distributed.init_process_group, timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.diagnosers.clues import common, latecomers, roots, spied
from ncclforensics.findings import Cite, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "desync"
NEEDS = ("collectives",)
MISSING = "no Flight Recorder dump"
NEXT_TIME = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
EXPLAINS = (
    *("timeout-masking", "crashed-rank", "missing-rank", "stuck-in-collective"),
    "gpu-stall",
)
SPREADS = True

REMEDY = (
    "read what that rank logged between its last two calls",
    "do that work before the first collective, or raise the timeout for it",
)


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the ranks that joined a call when the others' timeout had passed."""
    calls = frames["calls"]
    late = latecomers.latecomers(frames)
    states = ("waiting", "behind", "done", "unseen")
    for (number,), some in late.group_by("call", maintain_order=True):
        call = calls.filter(pl.col("call") == number).row(0, named=True)
        # who is unseen may have come later still, and takes nothing from the late one
        if sum(len(call[state]) for state in states) >= len(call["members"] or ()):
            yield _finding(frames, call, some, common.numbers(some["rank"]))
            return


def _finding(
    frames: Frames, call: dict[str, Any], late: pl.DataFrame, ranks: tuple[int, ...]
) -> Finding:
    failing = common.collective(frames, call)
    who = common.plural("rank", ranks)
    seconds = float(str(late["after"].max())) / 1e3
    timeout = float(str(late["timeout_ms"].max())) / 1e3
    came = "All that left a dump" if call["unseen"] else "All members"
    cited = tuple(
        Cite(
            row["source"],
            row["line"],
            f"rank {row['rank']} made the call at {row['t']}",
        )
        for row in late.head(3).to_dicts()
    )
    return Finding(
        slug="straggler",
        confidence="likely" if call["unseen"] else "certain",
        headline=f"{who} came {seconds:,.1f} s late to {common.call_words(failing)}",
        evidence=(*cited, *roots.waiting(frames, call)),
        explanation=f"{came} made {common.call_words(failing)}, but {who} made it "
        f"{seconds:,.1f} s after the first, when the timeout of {timeout:,.0f} s had "
        f"passed and the others had given up.{spied.at_work(frames, ranks)}",
        remedy=REMEDY,
        ranks=ranks,
        hosts=common.hosts_of(frames, ranks),
        devices=common.devices_of(frames, ranks),
        collective=failing,
        first_seen=roots.onset(frames, call),
    )
