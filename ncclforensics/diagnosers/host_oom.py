"""A host ran out of memory, and the kernel or a memory monitor killed a rank.

What it means
    A process, or a container as a whole, asked for more host memory than there was. The
    kernel, the scheduler or another monitor sent SIGKILL, so the rank itself logged
    nothing. Its peers lost it and timed out.

How we know
    The kernel's `Out of memory: Killed process` or `oom-kill:` with that process,
    Slurm's `oom_kill event`, the memory limit of PBS, LSF or Grid Engine, Kubernetes'
    `OOMKilled`, the words of SageMaker, Vertex AI or AWS for it, or Ray's memory
    monitor. The rank
    is the one with that host and pid. If the pid does not match, because a container
    counts pids differently from the kernel, it is the only rank on that host that ended
    by SIGKILL.

What to do
    Find what grows: DataLoader workers, pinned buffers, a checkpoint that is gathered
    on one rank. Use fewer workers, stream the checkpoint, or ask for more memory
    (`--mem`, or the container's limit).

Looks like
    Exit code -9 or 137 alone is `crashed-rank`: who sent SIGKILL is not known.
    `CUDA out of memory` is `gpu-oom`. The kernel may also have killed a program that
    has nothing to do with the job: then this class says nothing.

References
    Linux Documentation/admin-guide/mm; Slurm cgroup.conf; Ray out-of-memory prevention.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive, exit_records
from ncclforensics.correlate.identity import placements
from ncclforensics.evidence import common, kernel_log, timed_out_call
from ncclforensics.model import wanted
from ncclforensics.model.actions import Action
from ncclforensics.model.findings import Finding
from ncclforensics.model.tables import SCHEMAS, without_rows
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "dead-rank"
NEEDS = (
    *("kernel.", "slurm.", "launchers.kubernetes", "launchers.ray", "exits"),
    *("launchers.batch", "cloud.memory"),
)
MISSING, NEXT_TIME = wanted.KERNEL
EXPLAINS = (
    "crashed-rank",
    "missing-rank",
    "timeout-masking",
    "socket-error",
    "ib-error",
    "node-lost",
    "rendezvous-failed",
    "shm-exhausted",
)
SPREADS = True

KERNEL = ("kernel.oom_kill", "kernel.oom_kill.target")
ASKED = "kernel.oom_invoked"  # above the line of the kill, and the list of processes
KEEPERS = (
    "slurm.oom_kill",
    "slurm.memory_limit",
    "slurm.sacct.out_of_memory",
    "launchers.kubernetes.oom",
    "launchers.kubernetes.system_oom",
    "launchers.ray.low_memory",
    "launchers.ray.low_memory.node",
    *("launchers.ray.memory_pressure", "launchers.ray.low_memory.old"),
    *("launchers.batch.memory_limit", "cloud.memory"),
)
KILLED = -signal.SIGKILL
OF_GROUP = "CONSTRAINT_MEMCG"  # a limit of cgroups was reached
OUT = "out of host memory"
COLUMNS = ("message", "text", "t", "rank", "host", "pid", "source", "line")

LOOK = Action("dmesg -T | grep -i -A1 -E 'oom-kill|killed process'", at="host")
MORE = "ask for more: sbatch --mem=0, or raise resources.limits.memory of the container"
LESS = "lower num_workers and prefetch_factor of the DataLoader, and pin_memory=False"


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the rank that was killed for lack of host memory, or its host."""
    told = frames.message(*KERNEL)
    cut = told.is_empty()  # a log that ends before it shows whom the kernel killed
    told = frames.message(ASKED) if cut else told
    kernel = kernel_log.of_this_job(frames, told)
    # a kill far from the failure hit another program, unless it hit a known rank
    kernel = kernel.filter(~pl.col("is_far") | pl.col("rank").is_not_null())
    kernel = alive.of_ranks(frames, kernel)
    states = _state(frames)
    keepers = pl.concat(
        [
            _in_columns(frames.message(*KEEPERS)),
            _in_columns(_evicted(frames)),
            *(_srun(frames), states),
        ]
    )
    killed = exit_records.ended(frames).filter(
        (pl.col("code") == KILLED) & (pl.col("reported_by") != "kernel")
    )
    if kernel.height:
        ours = pl.col("name").fill_null("").str.contains(exit_records.OURS)
        # a limited group is a job's or a container's; a cut line names no process
        unnamed = pl.lit(False)
        if "constraint" in kernel.columns:
            of_group = pl.col("constraint") == OF_GROUP
            unnamed = (of_group & pl.col("name").is_null()).fill_null(False)
        kernel = kernel.filter(
            ours | unnamed | pl.col("rank").is_not_null() | bool(killed.height)
        )
    lines = pl.concat([_in_columns(kernel), keepers])
    if lines.is_empty():
        return
    cut &= keepers.is_empty()
    ranks = common.numbers(lines["rank"])
    hosts = common.hosts(lines["host"]) or common.hosts_of(frames, ranks)
    ranks = ranks or _in_pods(frames, lines)
    joined = not ranks  # by a signal, which is weaker
    if joined:
        ranks = _by_signal(killed, (*hosts, *placements.pods_on(frames, hosts)))
        hosts = hosts or common.hosts_of(frames, ranks)
    who = common.ranks(ranks) if ranks else "a process of the job"
    where = common.on(hosts)
    did = "asked in vain for memory" if cut else "was killed"
    at_limit = _at_limit(kernel)
    lack = "at the memory limit of its job or container" if at_limit else OUT
    yield Finding(
        slug="host-oom",
        confidence="likely" if cut or (ranks and joined) else "certain",
        headline=f"{who} {did}{where}: {lack}"[:200],
        evidence=common.cites(
            pl.concat(
                [
                    lines.select("text", "source", "line"),
                    killed.filter(pl.col("rank").is_in(list(ranks))).select(
                        pl.col("text").fill_null("ended by SIGKILL"), "source", "line"
                    ),
                ]
            )
        ),
        explanation=_explanation(lines, ranks, joined),
        remedy=(MORE, LESS, LOOK) if at_limit else (LOOK, LESS, MORE),
        ranks=ranks,
        hosts=hosts,
        collective=timed_out_call.waited_in(frames),
        first_seen=common.first_seen(lines),
    )


def _at_limit(kernel: pl.DataFrame) -> bool:
    """Whether the kernel killed in a group with a limit, and not for the whole host."""
    if "constraint" not in kernel.columns:
        return False
    limits = kernel["constraint"].drop_nulls()
    return limits.len() > 0 and bool((limits == OF_GROUP).all())


def _explanation(lines: pl.DataFrame, ranks: tuple[int, ...], joined: bool) -> str:
    # prefer the kernel's line that people know
    plain = lines.filter(pl.col("text").str.contains("Killed process", literal=True))
    first = (plain if plain.height else lines)["text"][0]
    line = said(first)
    if not ranks:
        return f"{line} Nothing here says which rank that process was."
    if joined:
        return (
            f"{line} {common.ranks(ranks).capitalize()} ended by SIGKILL, and "
            "no other rank there did."
        )
    return f"{line} That process was {common.ranks(ranks)}."


def _by_signal(killed: pl.DataFrame, hosts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the one rank that ended by SIGKILL on the one host that ran out."""
    short = pl.col("host").str.extract(r"^([^.]+)")
    names = [host.partition(".")[0] for host in hosts]
    there = (
        killed.filter(pl.col("host").is_null() | short.is_in(names))
        if names
        else killed
    )
    ranks = common.numbers(there["rank"])
    return ranks if len(ranks) == 1 else ()


def _in_pods(frames: Frames, lines: pl.DataFrame) -> tuple[int, ...]:
    """Return the rank of each pod whose container was killed, if the pod holds one."""
    killed = lines.filter(pl.col("message") == "launchers.kubernetes.oom")
    each = (common.ranks_on(frames, [pod]) for pod in common.strings(killed["host"]))
    return tuple(sorted(ranks[0] for ranks in each if len(ranks) == 1))


def _srun(frames: Frames) -> pl.DataFrame:
    """Return srun's `Out Of Memory` of a task, with its host and rank."""
    tasks = exit_records.of_slurm(frames).filter(pl.col("reason") == "Out Of Memory")
    return _in_columns(tasks)


def _evicted(frames: Frames) -> pl.DataFrame:
    """Return the lines of pods that their node evicted for lack of memory."""
    lines = frames.message("launchers.kubernetes.evicted")
    if "resource" not in lines.columns:
        return lines
    return lines.filter(pl.col("resource") == "memory")


def _state(frames: Frames) -> pl.DataFrame:
    states = frames.message("slurm.state")
    if "state" not in states.columns:
        return _in_columns(states)
    return _in_columns(states.filter(pl.col("state") == "OUT_OF_MEMORY"))


def _in_columns(lines: pl.DataFrame) -> pl.DataFrame:
    types = SCHEMAS["events"]
    if lines.is_empty():
        return without_rows({c: types[c] for c in COLUMNS})
    return lines.select(
        (pl.col(c) if c in lines.columns else pl.lit(None)).cast(types[c]).alias(c)
        for c in COLUMNS
    )
