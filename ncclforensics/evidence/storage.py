"""What shows that a file server or an object store does not answer.

The client in the kernel says when its server falls silent and when it is back. The
kernel and `ps` show which process waits in which file system, where no signal reaches
it. A rank may also give up by itself, with an error that only storage causes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive, exit_records
from ncclforensics.correlate.timing.duplicate_files import LEAST_MS
from ncclforensics.evidence import blocked_processes, exceptions, kernel_log
from ncclforensics.model.frames import are_empty
from ncclforensics.model.tables import CITE, SCHEMAS, without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

SILENT = (
    *("kernel.nfs.silent", "kernel.lustre.silent"),
    *("kernel.ceph.silent", "kernel.smb.silent"),
    *("kernel.lnet.silent", "system.gpfs.lost"),
)
MOUNT = "collect.mount_silent"
BACK = ("kernel.nfs.back", "kernel.lustre.back", "kernel.ceph.back")
EVICTED = "This client was evicted by "
HUNG, LISTED = blocked_processes.HUNG, blocked_processes.LISTED
LOCAL = "a local disk"
OURS = rf"{exit_records.OURS}|(?:^|/)python[\d.]*(?: |$)"  # a name, or a command
# errors that only a file server or an object store causes
ANSWERLESS = (
    r"\[Errno (?:107|108|112|116)\] |\[Errno 110\] [^']*'/|Stale file handle"
    r"|(?:Read|Connect) timeout on endpoint URL|Could not connect to the endpoint URL"
    r"|(?:storage\.googleapis\.com|\.blob\.core\.windows\.net|\bs3\b[^ ]*)[^\n]*"
    r"(?:[Tt]imed out|[Tt]imeout)"
)
FROZEN = "a frozen file system"
LOADER = "python.dataloader.timed_out"
OS_ERROR = "python.os_error"
LOADER_SAYS = r"DataLoader timed out after [\d.]+ seconds"
LINES = ("text", "t", "yearless", "rank", "host", "source", "line", "server")
BLOCKED = ("message", *LINES[:-1], "pid", "file_system")
TYPES = SCHEMAS["events"] | {"file_system": pl.String(), "name": pl.String()}
TOLD = {c: SCHEMAS["events"][c] for c in LINES[:-1]} | {"server": pl.String()}


def silent_servers(frames: Frames) -> pl.DataFrame:
    """Return the lines of servers that did not answer when the job failed, in LINES.

    A server that was back before then is left out.
    """
    silent, mounts = frames.message(*SILENT), frames.message(MOUNT)
    if silent.is_empty() and mounts.is_empty():
        return without_rows(TOLD)
    lines = kernel_log.of_this_job(frames, silent)
    # a mount that did not answer while the job hung has no time of its own
    asked = mounts.with_columns(pl.lit(False).alias("is_far"))
    lines = pl.concat([lines, asked], how="diagonal_relaxed")
    lines = lines.filter(~pl.col("is_far"))
    names = [c for c in ("server", "target", "evicted_by") if c in lines.columns]
    if lines.is_empty() or not names:
        return without_rows(TOLD)
    told = lines.with_columns(pl.coalesce(*names).alias("server")).select(LINES)
    back = frames.message(*BACK)
    if back.is_empty():
        return told
    again = back.select(
        "source", "server", pl.col("line").alias("back"), pl.col("t").alias("back_t")
    )
    job = kernel_log.span(frames)
    failed = None if job is None or job.clock != "t" else job.failed
    in_time = pl.col("back_t").is_null() | (pl.col("back_t") <= pl.lit(failed))
    recovered = (
        told.join(again, on=["source", "server"])
        .filter((pl.col("back") > pl.col("line")) & in_time.fill_null(True))
        .select("source", "line")
        .unique()
    )
    return told.join(recovered, on=["source", "line"], how="anti")


def blocked(frames: Frames) -> pl.DataFrame:
    """Return the job's processes that wait in a file system, in BLOCKED.

    `t` is when the wait began, as far as the kernel tells.
    """
    hung = kernel_log.of_this_job(frames, blocked_processes.hung(frames))
    parts = [
        _in_columns(blocked_processes.listed(frames)),
        _in_columns(blocked_processes.in_kernel(frames)),
    ]
    if "file_system" in hung.columns:
        waited = pl.duration(seconds="seconds")
        began = hung.with_columns(pl.col("t") - waited).filter(~pl.col("is_far"))
        parts.append(_in_columns(began))
    if are_empty(parts):
        return without_rows({c: TYPES[c] for c in BLOCKED})
    lines = pl.concat(parts).drop_nulls("file_system")
    ours = pl.col("rank").is_not_null() | pl.col("name").str.contains(OURS)
    return lines.filter(ours.fill_null(False)).select(BLOCKED)


def stays(frames: Frames, stuck: pl.DataFrame) -> bool:
    """Whether a process of `stuck` (see `blocked`) waited there in two looks.

    A list of `ps` has no time of its own: that of its file counts. One look is enough
    at a file system that is frozen: no write is only slow there.
    """
    if (stuck["file_system"] == FROZEN).any():
        return True
    listed = stuck.filter(pl.col("message") == LISTED).drop_nulls("pid")
    looks = alive.looks(frames)
    files = frames["sources"].select("source", "modified").unique("source")
    timed = listed.join(looks, on="source", how="left").join(files, on="source")
    t = pl.coalesce("taken", "modified")
    apart = timed.group_by("host", "pid", "file_system").agg(
        (t.max() - t.min()).dt.total_milliseconds().alias("apart")
    )
    return apart.filter(pl.col("apart") >= LEAST_MS).height > 0


def gave_up(frames: Frames) -> pl.DataFrame:
    """Return the uncaught exceptions that only storage causes, in exceptions.RAISED.

    Adds `is_loader`: a worker of a data loader did not answer, which may be for another
    reason than storage. Without any traceback, as in a paste, `echo` is null: the
    exception may have been caught.
    """
    raised = exceptions.uncaught(frames).filter(pl.col("echo").eq_missing(False))
    if frames.message(*exceptions.TRACEBACKS).is_empty() and raised.is_empty():
        pasted = frames.message(LOADER, OS_ERROR)
        pasted = pasted.select("rank", "host", "t", "text", *CITE)
        raised = pl.concat([raised, pasted], how="diagonal_relaxed")
    if raised.is_empty():
        return raised.with_columns(pl.lit(None, pl.Boolean).alias("is_loader"))
    is_loader = pl.col("text").str.contains(LOADER_SAYS)
    return raised.with_columns(is_loader.alias("is_loader")).filter(
        pl.col("is_loader") | pl.col("text").str.contains(ANSWERLESS)
    )


def _in_columns(lines: pl.DataFrame) -> pl.DataFrame:
    if lines.is_empty():
        return without_rows({c: TYPES[c] for c in (*BLOCKED, "name")})
    return lines.select(
        (pl.col(c) if c in lines.columns else pl.lit(None)).cast(TYPES[c]).alias(c)
        for c in (*BLOCKED, "name")
    )
