"""Elastic Horovod waited for slots until its timeout, and fewer than it needs came.

What it means
    Hosts were lost or blacklisted, and what was left is less than `--min-np`. Horovod
    waits for hosts to come back, which looks like a hang, and then gives up.

How we know
    `Timed out waiting for … Please check that you have enough resources to run at least
    N Horovod processes`, or `reset count … has exceeded limit`.

What to do
    Bring the lost hosts back, or lower `--min-np`; raise `--elastic-timeout` where they
    only come slowly, `--reset-limit` where they come and go.

Looks like
    A hang: the waiting itself prints nothing. Hosts that Horovod blacklisted failed for
    a reason of their own, which their own logs tell.

References
    Elastic Horovod documentation; horovodrun(1).
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from ncclforensics.diagnosers.clues import common
from ncclforensics.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

FAMILY = "launch"
NEEDS = ("launchers.horovod",)
MISSING = "no output of horovodrun"
NEXT_TIME = "keep the output of horovodrun --verbose"
EXPLAINS = ("missing-rank", "timeout-masking", "crashed-rank", "rendezvous-failed")
SPREADS = True

DISCOVER = (
    "bash ./discover_hosts.sh   # your --host-discovery-script: is every host listed?"
)
WAIT = "horovodrun --min-np {} --elastic-timeout 1800 --blacklist-cooldown-range 60 600"
RESETS = "horovodrun --reset-limit {} --blacklist-cooldown-range 60 600"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Say how many processes Horovod needed, and which hosts it had lost."""
    lines = frames.message("launchers.horovod.below_min")
    if lines.is_empty():
        lines = frames.message("launchers.horovod.resets")
    if lines.is_empty():
        return
    lost = frames.message("launchers.horovod.blacklist")
    hosts = common.strings(lost["host"])
    needed = common.numbers(lines["min_np"]) if "min_np" in lines.columns else ()
    what = (
        f"fewer than the {needed[0]:,} processes it needs came back"
        if needed
        else "it was reset more often than its limit allows"
    )
    yield Finding(
        slug="elastic-below-min",
        confidence="certain",
        headline=f"elastic Horovod gave up: {what}",
        evidence=common.cites(lines) + common.cites(lost, 3),
        explanation=f"Horovod waited for hosts and gave up: {what}. "
        + (f"It had blacklisted {common.some(hosts)}." if hosts else ""),
        remedy=(
            *_start(lines),
            *(f"ssh {quote(h)} nvidia-smi -L" for h in hosts[:3]),
            DISCOVER,
        ),
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _start(lines: pl.DataFrame) -> tuple[str, ...]:
    """Say with which options to start it again, and what they change."""
    if "limit" in lines.columns:
        limit = max(common.numbers(lines["limit"]), default=3)
        return (
            f"{RESETS.format(2 * limit)}   # added to the options it was started with",
        )
    needed = max(common.numbers(lines["min_np"]), default=2)
    fewer = WAIT.format(max(needed // 2, 1))
    return (f"{fewer}   # added to the others: fewer processes, a longer wait",)
