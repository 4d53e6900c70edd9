"""A launcher that a shell, srun or a container runtime did not find on its host.

No process of the job runs there, so those of the other hosts wait for it in vain.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.correlate.runs.job import STEPS
from ncclforensics.evidence import common
from ncclforensics.model.findings import Finding
from ncclforensics.model.tables import without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

NOT_FOUND = "system.not_started"
# the step daemon of one node says so, in a stream of all nodes
OF_DAEMON = pl.col("text").str.contains("execve()", literal=True)
OF_TORCH = r"^(?:c10d|torchelastic|nccl)\."
ENOENT = 2  # with which srun says that such a task exited


def lines(frames: Frames, told: pl.DataFrame) -> pl.DataFrame:
    """Return the lines that say so, with the `command`; none if the job made steps.

    `told` are the lines of agents and stores: where they stand, a launcher did start,
    at least on the hosts of other tasks. Those of srun's exits tell the host.
    """
    found = frames.message(NOT_FOUND)
    if found.is_empty() or frames.message(*STEPS).height:
        return found.clear().with_columns(command=pl.lit(""))
    elsewhere = ~pl.col("source").is_in(told["source"].unique().implode())
    at = found.filter(OF_DAEMON | elsewhere).join(
        hosts_without(frames), on="source", how="left", maintain_order="left"
    )
    host = pl.coalesce("host", pl.when(OF_DAEMON).then("_host"))
    return at.with_columns(host.alias("host")).drop("_host")


def hosts_without(frames: Frames) -> pl.DataFrame:
    """Return `source _host` of srun's tasks whose program their node did not find."""
    if not frames.tells([NOT_FOUND]):
        return without_rows({"source": pl.String(), "_host": pl.String()})
    said = frames.message(NOT_FOUND).filter(OF_DAEMON).select("source").unique()
    if said.is_empty():
        return said.with_columns(_host=pl.lit("")).clear()
    ended = exit_records.of_slurm(frames).filter(pl.col("code") == ENOENT)
    hosts = ended.select("source", _host="host").drop_nulls()
    return hosts.join(said, on="source", how="semi").unique(maintain_order=True)


def hosts_of_silent_tasks(frames: Frames, missing: int) -> tuple[str, ...]:
    """Return the hosts of srun's tasks of which no line is torch's.

    Only if they are as many as are `missing` where the others met, and srun tells the
    host of each.
    """
    ends = [exit_records.of_slurm(frames), exit_records.torn_down(frames)]
    tasks = pl.concat(ends).select("task", "host").drop_nulls().unique()
    spoke = frames["events"].filter(pl.col("message").str.contains(OF_TORCH))["task"]
    silent = tasks.filter(~pl.col("task").is_in(spoke.drop_nulls().implode()))
    told = spoke.count() > 0 and silent["task"].n_unique() == silent.height == missing
    return common.hosts(silent["host"]) if told else ()


def hosts_without_torch(frames: Frames) -> tuple[str, ...]:
    """Return the hosts that have a log of the job, but no line of torch in any."""
    logs = frames["sources"].filter(pl.col("kind") == "log")
    spoke = frames["events"].filter(pl.col("message").str.contains(OF_TORCH))
    with_torch = spoke["source"].unique().implode()
    theirs = logs.filter(pl.col("source").is_in(with_torch))["host"]
    return tuple(h for h in common.hosts(logs["host"]) if h not in {*theirs})


def hosts_in_vain(tries: pl.DataFrame, missing: int) -> tuple[str, ...]:
    """Return the hosts that did not reach the store, if they are all that are missing.

    `tries` are the lines in which clients say so, with their `host`.
    """
    hosts = common.hosts(tries["host"])
    return hosts if len(hosts) == missing and not tries["host"].null_count() else ()


def words(found: pl.DataFrame) -> str:
    """Return who did not find what: a host, or the file of its shell."""
    hosts = common.hosts(found["host"])
    who = common.named(hosts or common.strings(found["source"]))
    return f"{who} did not find {found['command'][0]}"


def finding(frames: Frames, found: pl.DataFrame) -> Finding:
    """Return the finding for a job of which nothing else is said.

    A host is named if others are known: where it is the only one, the job's script or
    environment is at fault, on whichever host it runs.
    """
    command = str(found["command"][0])
    hosts = common.hosts(found["host"])
    tasks = (exit_records.of_slurm(frames), exit_records.torn_down(frames))
    seen = common.hosts(pl.concat(f["host"] for f in (frames["events"], *tasks)))
    alone = not {*seen} - {*hosts}
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
        hosts=() if alone else hosts,
        first_seen=common.first_seen(found),
    )
