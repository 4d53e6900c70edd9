"""A file system of a host is full, and a write failed.

What it means
    A checkpoint, a log, a cache or a temporary file hit the end of a file system or of
    a quota. The rank that writes raises an exception, usually rank 0 during a save. The
    other ranks wait for it in their next collective.

How we know
    `[Errno 28] No space left on device` with a path on disk, `[Errno 122] Disk quota
    exceeded`, or the same text from a shell tool or a library. Or Kubernetes evicted a
    pod because its node's disk, or its share, was used up. torch.save does not pass
    the reason on: it only says that it could not write all of a file, or `unexpected
    pos`, and the finding is then `likely`. The host that prints the error is named,
    with its ranks.

What to do
    `df -h PATH; df -i PATH` (the inodes may be used up), `quota -s`. Delete or move old
    checkpoints, and point TMPDIR and the caches (HF_HOME, TRITON_CACHE_DIR) elsewhere.

Looks like
    The same error on /dev/shm, or while torch or NCCL create shared memory, is
    `shm-exhausted`.
    `inotify_add_watch … No space left on device` means that the inotify watch
    limit is reached. A network file system that fails truncates files of torch.save
    just as a full one does.

References
    errno(3): ENOSPC, EDQUOT.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.diagnosers import shm_exhausted
from ncclforensics.evidence import common
from ncclforensics.model import tables, wanted
from ncclforensics.model.actions import Action
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
    "unreachable-peer",
)
SPREADS = True

PYTHON, SAVING = "python.os_error", "python.save_failed"
OTHERS = ("system.disk_full", SAVING)
FULL = (28, 122)
IN_MEMORY = (
    r"/dev/shm|</torch_|^/(?:torch|psm)_|multiprocessing|shared memory|(?i)\bshm\b"
)
NOT_A_DISK = r"inotify|hugepage|semget|shmget|perf_event|ibv_|cgroup"
EVICTED = "launchers.kubernetes.evicted"
DISKS = ("ephemeral-storage", "inodes", "nodefs", "imagefs")  # of a kubelet
SHARED = ["message", "text", "t", "rank", "host", "source", "line", "path"]


def diagnose(frames: Frames) -> Iterator[Statement]:
    """Name the host whose disk is full, and the ranks that could not write."""
    if not frames.tells((PYTHON, *OTHERS, EVICTED)):
        return
    lines = pl.concat([_raised(frames), _printed(frames), _evicted(frames)])
    lines = lines.filter(~pl.col("text").str.contains(f"{IN_MEMORY}|{NOT_A_DISK}"))
    if lines.is_empty():
        return
    ranks = common.numbers(lines["rank"])
    hosts = common.hosts(lines["host"]) or common.hosts_of(frames, ranks)
    paths = common.strings(lines["path"])
    what = paths[0].rpartition("/")[0] or paths[0] if paths else "PATH"
    where = common.on(hosts)
    who = f" ({common.ranks(ranks)} could not write)" if ranks else ""
    is_told = (lines["message"] != SAVING).any()
    full = "a file system is full" if is_told else "a file could not be written"
    why = "" if is_told else " It does not say why; usually the file system is full."
    harm = (
        "The kubelet ended the pod for it."
        if (lines["message"] == EVICTED).all()
        else "What had to be written could not be, and the process that wrote it "
        "failed."
    )
    yield Finding(
        slug="disk-full",
        confidence="certain" if paths else "likely",
        headline=f"{full}{where}{who}" + (f": {paths[0]}" if paths else ""),
        evidence=common.cites(lines),
        explanation=f"{said(lines['text'][0])} {harm}{why}",
        remedy=(
            Action(f"df -h {quote(what)}; df -i {quote(what)}", at="process"),
            f"du -xsh {quote(what)}/* | sort -h | tail; quota -s",
            "export TMPDIR=/a/disk/with/room HF_HOME=/a/disk/with/room",
        ),
        ranks=ranks,
        hosts=hosts,
        first_seen=common.first_seen(lines),
    )


def _raised(frames: Frames) -> pl.DataFrame:
    """Return Python's errors, without those raised while memory was being shared."""
    lines = frames.message(PYTHON)
    if "errno" not in lines.columns:
        return lines.with_columns(pl.lit(None, pl.String).alias("path")).select(SHARED)
    lines = lines.filter(pl.col("errno").is_in(FULL))
    if "path" not in lines.columns:
        lines = lines.with_columns(pl.lit(None, pl.String).alias("path"))
    sharing = shm_exhausted.raised_while_sharing(frames)
    lines = lines.join(sharing.select("source").unique(), on="source", how="anti")
    return lines.select(SHARED)


def _evicted(frames: Frames) -> pl.DataFrame:
    """Return the lines of pods that a node evicted for lack of room on its disk."""
    lines = frames.message(EVICTED)
    types = {c: pl.String() for c in ("resource", "limit", "path")}
    lines = tables.with_nulls(lines, types)
    of_disk = pl.col("resource").is_in(DISKS) | pl.col("limit").is_not_null()
    return lines.filter(of_disk.fill_null(False)).select(SHARED)


def _printed(frames: Frames) -> pl.DataFrame:
    """Return the lines of tools and libraries, without those of NCCL."""
    lines = frames.message(*OTHERS).filter(pl.col("level").ne_missing("WARN"))
    if "path" not in lines.columns:
        lines = lines.with_columns(pl.lit(None, pl.String).alias("path"))
    return lines.select(SHARED)
