"""Elastic Horovod has fewer slots left than it needs: it waits, or it gave up.

What it means
    Hosts were lost or blacklisted, and what is left is less than `--min-np`. Horovod
    waits for hosts to come back, which looks like a hang, and then gives up.

How we know
    `Timed out waiting for … Please check that you have enough resources to run at least
    N Horovod processes`, `reset count … has exceeded limit`, or `blacklisted slots
    count == N -> stop running`. While it still waits: `wait for available slots: N`
    after `blacklist failing host`, with no `reset workers` after that.

What to do
    Bring the lost hosts back, or lower `--min-np`. Raise `--elastic-timeout` if hosts
    only come back slowly, and `--reset-limit` if they come and go.

Looks like
    A hang: Horovod prints nothing while it waits, except at level INFO.
    If enough hosts are left, the job goes on, and its next round is no failure. Hosts
    that Horovod blacklisted failed for reasons of their own; read their logs.

References
    Elastic Horovod documentation; horovodrun(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding
from ncclforensics.model.shell import at_host, is_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

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
COOL = "horovodrun --blacklist-cooldown-range 60 600"
RESETS = "horovodrun --reset-limit {} --blacklist-cooldown-range 60 600"

WAITS, GOES_ON = "launchers.horovod.waits", "launchers.horovod.goes_on"
GAVE_UP = ("below_min", "resets", "no_host_left")


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Report how many processes Horovod needed, and which hosts it had lost."""
    told = (frames.message(f"launchers.horovod.{why}") for why in GAVE_UP)
    lines = next((found for found in told if found.height), _waiting(frames))
    if lines.is_empty():
        return
    waits = lines["message"][0] == WAITS
    lost = frames.message("launchers.horovod.blacklist")
    first = frames.message("launchers.horovod.first")
    hosts = common.hosts(lost["host"]) or common.hosts(first["host"])
    needed = common.numbers(lines["min_np"]) if "min_np" in lines.columns else ()
    what = (
        f"fewer than the {needed[-1]:,} processes it needs "
        f"{'are left' if waits else 'came back'}"
        if needed
        else "it was reset more often than its limit allows"
        if "limit" in lines.columns
        else "every host of it is blacklisted"
    )
    how = "waits for hosts" if waits else "gave up"
    yield Finding(
        slug="elastic-below-min",
        confidence="likely" if waits else "certain",
        headline=f"elastic Horovod {how}: {what}",
        evidence=common.cites(lines) + common.cites(lost, 3),
        explanation=f"Horovod {'waits for hosts' if waits else 'has given up'}: {what}."
        + (f" It lost {common.named(hosts)}." if hosts else ""),
        remedy=(
            *_start(lines),
            *(at_host(h, "nvidia-smi -L") for h in hosts[:1] if is_host(h)),
            DISCOVER,
        ),
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _waiting(frames: Frames) -> pl.DataFrame:
    """Return the last wait for slots of each file, after a lost host and unended."""
    waits, lost = frames.message(WAITS), frames.message("launchers.horovod.blacklist")
    last = waits.sort("line").unique("source", keep="last", maintain_order=True)
    ended = frames.message(GOES_ON).group_by("source").agg(pl.col("line").max())
    began = lost.group_by("source").agg(pl.col("line").min())
    return (
        last.join(ended, on="source", how="left", suffix="_ended")
        .join(began, on="source", suffix="_lost")
        .filter(
            (pl.col("line") > pl.col("line_lost"))
            & (pl.col("line") > pl.col("line_ended")).fill_null(True)
        )
    )


def _start(lines: pl.DataFrame) -> tuple[str, ...]:
    """Return the options to restart Horovod with, and what they change."""
    if "limit" in lines.columns:
        limit = max(common.numbers(lines["limit"]), default=3)
        return (
            f"{RESETS.format(2 * limit)}   # added to the options it was started with",
        )
    if "min_np" not in lines.columns:
        return (f"{COOL}   # added to the options: hosts may come back",)
    needed = max(common.numbers(lines["min_np"]), default=2)
    fewer = WAIT.format(max(needed // 2, 1))
    return (f"{fewer}   # added to the others: fewer processes, a longer wait",)
