"""A launcher that a shell, srun or a container runtime did not find on its host.

No process of the job runs there, so those of the other hosts wait for it in vain.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs.job import STEPS
from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

NOT_FOUND = "system.not_started"


def lines(frames: Frames, told: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that say so, with the `command`; none if the job made steps.

    `told` are the lines of agents and stores: where they stand, a launcher did start.
    """
    found = frames.message(NOT_FOUND)
    if found.is_empty() or frames.message(*STEPS).height:
        return found.clear().with_columns(command=pl.lit(""))
    return found.filter(~pl.col("source").is_in(told["source"].unique().implode()))


def words(found: pl.DataFrame) -> str:
    """Return who did not find what: a host, or the file of its shell."""
    hosts = common.hosts(found["host"])
    who = common.named(hosts) if hosts else str(found["source"][0])
    return f"{who} did not find {found['command'][0]}"


def finding(found: pl.DataFrame) -> Finding:
    """Return the finding for a job of which nothing else is said."""
    command = str(found["command"][0])
    return Finding(
        slug="rendezvous-failed",
        confidence="likely",
        headline=f"{words(found)}: nothing was started"[:200],
        evidence=common.cites(found),
        explanation=f"{command} is not on the PATH of that shell, or its environment "
        "was not activated. No process of the job ran there.",
        remedy=(
            f"command -v {quote(command)}; echo $PATH   # there, in the job's script",
        ),
        hosts=common.hosts(found["host"]),
        first_seen=common.first_seen(found),
    )
