"""Shared memory of a host ran out: /dev/shm is too small for NCCL or the data loaders.

What it means
    NCCL puts the buffers between the GPUs of one host into /dev/shm, and torch's data
    loaders pass batches through it. Docker gives a container 64 MB of it by default. If
    a segment cannot grow, NCCL fails. If a segment has its size but not its memory, the
    process that touches it dies of SIGBUS.

How we know
    `Error while creating shared memory segment`, `failed to extend /dev/shm/nccl-…`,
    `Call to posix_fallocate failed : No space left on device`, torch's `unable to write
    to file </torch_…>`, a data loader's `Unexpected bus error`, `killed by signal: Bus
    error`. The host is named, with its ranks that print it; in a job of several hosts,
    also the other ranks that failed on that host.

What to do
    `df -h /dev/shm` on the named host. Use `docker run --shm-size=16g`, or
    `--ipc=host`; in Kubernetes, an emptyDir with `medium: Memory` at /dev/shm. Look for
    old segments of dead jobs: `ls -la /dev/shm/nccl-*`. As a stopgap, use fewer workers
    or NCCL_SHM_DISABLE=1.

Looks like
    `No space left on device` on a path of a real file system is `disk-full`.
    `Error while attaching to shared memory segment` is a peer of the rank that failed.
    SIGBUS alone, without a message about shared memory, is `crashed-rank`.

References
    NCCL troubleshooting, shared memory; torch multiprocessing best practices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import exit_records
from ncclforensics.evidence import common
from ncclforensics.model import wanted
from ncclforensics.model.findings import Finding
from ncclforensics.model.words import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

FAMILY = "platform"
NEEDS = ("events",)
MISSING, NEXT_TIME = wanted.LOGS
EXPLAINS = (
    *("crashed-rank", "missing-rank", "timeout-masking", "socket-error"),
    *("unreachable-peer", "disk-full"),
)
SPREADS = True

SEGMENTS = ("nccl.shm.failed", "nccl.shm.extend_failed", "nccl.shm.map_failed")
SYSTEM = ("nccl.syscall_failed",)
ALLOCATES = ("posix_fallocate", "fallocate", "ftruncate")
TORCH = ("python.shm_failed",)
LOADER = ("python.dataloader.bus_error", "python.dataloader.killed")
# reasons for a failed segment that have nothing to do with its size
RAISED = ("python.os_error", "python.traceback")
OTHER = r"(?i)no such file|permission denied|too many open files|file exists"
FULL = r"(?i)no space left|cannot allocate memory"
SHARING = r"multiprocessing/|/reductions\.py$"
SHARED = ["text", "t", "rank", "host", "pid", "source", "line"]


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the hosts whose shared memory is too small."""
    if not frames.tells((*SEGMENTS, *SYSTEM, *LOADER, *TORCH, *RAISED)):
        return
    lines = pl.concat([_segments(frames), _torch(frames), _os_errors(frames)])
    if lines.is_empty():
        return
    # first the line that gives the reason
    lines = lines.sort(~pl.col("text").str.contains(FULL), maintain_order=True)
    hosts = common.hosts(lines["host"])
    ranks = common.numbers(pl.concat([lines["rank"], _beside(frames, hosts)["rank"]]))
    only = exit_records.only_one(frames)
    ranks = ranks or (() if only is None else (only,))
    hosts = hosts or common.hosts_of(frames, ranks)
    hosts = hosts or common.host_of_file(frames, lines)
    where = common.named(hosts) or "a host that the lines do not name"
    on = f"   # on {common.some(hosts)}" if hosts else ""
    yield Finding(
        slug="shm-exhausted",
        confidence="certain" if lines["text"].str.contains(FULL).any() else "likely",
        headline=f"shared memory (/dev/shm) ran out on {where}",
        evidence=common.cites(lines),
        explanation=f"{said(lines['text'][0])} /dev/shm of {where} has no room for "
        "what NCCL or the data loaders put there.",
        remedy=(
            f"df -h /dev/shm; ls -la /dev/shm | head{on}",
            "docker run --shm-size=16g    # or --ipc=host; the default is 64 MB",
            "Kubernetes: an emptyDir with `medium: Memory`, mounted at /dev/shm",
        ),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _segments(frames: Frames) -> pl.DataFrame:
    """Return NCCL's failures to create a segment of the size it needs."""
    made = frames.message(*SEGMENTS).filter(
        pl.col("level").ne_missing("INFO")
        & ~pl.col("text").str.contains("attaching to")
        & ~pl.col("text").str.contains(OTHER)
    )
    calls = frames.message(*SYSTEM)
    if "call" in calls.columns:
        calls = calls.filter(
            pl.col("call").is_in(ALLOCATES) & pl.col("error").str.contains(FULL)
        )
    return pl.concat([made.select(SHARED), calls.select(SHARED)])


def _torch(frames: Frames) -> pl.DataFrame:
    """Return torch's lines: a segment that failed, a loader killed by SIGBUS."""
    loader = frames.message(*LOADER).filter(
        pl.col("text").str.contains("(?i)bus error")
    )
    segment = frames.message(*TORCH).filter(~pl.col("text").str.contains(OTHER))
    return pl.concat([loader.select(SHARED), segment.select(SHARED)])


def _os_errors(frames: Frames) -> pl.DataFrame:
    """Return Python's `[Errno 28]` on a shared memory path, or while sharing memory."""
    lines = frames.message("python.os_error")
    sharing = raised_while_sharing(frames).select(SHARED)
    if "path" not in lines.columns:
        return sharing
    in_memory = pl.col("path").str.contains(r"^/dev/shm/|^/(?:torch|psm)_")
    on_path = lines.filter((pl.col("errno") == 28) & in_memory)
    return pl.concat([on_path.select(SHARED), sharing])


def raised_while_sharing(frames: Frames) -> pl.DataFrame:
    """Return the `Errno 28` exceptions that were raised inside multiprocessing.

    Its queues, locks and tensors are files in /dev/shm, but the exceptions do not name
    them.
    """
    raised = frames.message("python.traceback")
    if "message_text" not in raised.columns:
        return raised.clear()
    return raised.filter(
        pl.col("raised_in").str.contains(SHARING)
        & pl.col("message_text").str.contains(r"Errno 28")
    ).with_columns(pl.col("message_text").alias("text"))


def _beside(frames: Frames, hosts: tuple[str, ...]) -> pl.DataFrame:
    """Return the failures of other ranks on these hosts, if the job has other hosts.

    All failed ranks of the host are named, but not ranks that only lost a peer or timed
    out. In a job on one host, the host does not distinguish the failed ranks.
    """
    events = frames["events"]
    others = set(common.hosts(events["host"])) - set(hosts)
    failed = events.filter(
        pl.col("host").is_in(hosts) & pl.col("role").is_in(["culprit", "either"])
    )
    return failed if others else failed.clear()
