"""Ends of processes that other lines tell than an exception or an exit code.

Ray, MPI and JAX's coordination service see that a process is gone; a data loader, CUDA
and NCCL print what ended one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.identity.host_names import NOWHERE
from ncclforensics.evidence import exceptions, external_stop
from ncclforensics.evidence.exceptions import SCHEMA
from ncclforensics.model.frames import needing
from ncclforensics.model.tables import without_rows

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# lines of what ends a process, whose own last lines may be lost
FATAL = (
    *("python.dataloader.killed", "python.dataloader.exited"),
    *("python.device_assert", "python.cuda_error", "nccl_tests.cuda_failure"),
    *("python.cuda_error.sticky", "system.hsa.fault", "system.glibc.abort"),
    "python.cuda_library",
)
# CUDA errors that a process's own kernel causes, and that persist in the process
STICKY = (
    r"illegal memory access|illegal instruction|misaligned address"
    r"|unspecified launch failure|device-side assert|invalid program counter"
)
RAY = (
    *("launchers.ray.actor_died", "launchers.ray.worker_died"),
    "launchers.ray.worker_failed",
)
OF_MPI = (
    *("launchers.mpi.abort_called", "launchers.mpi.exited"),
    "launchers.mpi.fatal_call",
)
# what the program itself asked Ray to do
ASKED = "killed by `ray.kill`"
MEANT = "INTENDED_"  # how Ray's types of an exit begin that nobody has to explain
# a process with one of these lines aborted itself because of a peer
SELF_ABORT = (
    "c10d.watchdog.abort",
    "c10d.watchdog.timeout",
    "c10d.heartbeat.terminate",
    "c10d.heartbeat.stuck",
    "c10d.heartbeat.timeout",
)


def gone(frames: Frames) -> pl.DataFrame:
    """Return what such lines tell of processes that ended by themselves, in SCHEMA."""
    found = (_of_ray, _of_lines, _of_services, _of_mpi)
    return pl.concat([find(frames) for find in found])


def _of_ray(frames: Frames) -> pl.DataFrame:
    """Return the worker that Ray lost, in SCHEMA, if no watchdog ended it.

    Ray sees that a process is gone and not why. `host` is its address, if only one is
    named.
    """
    lines = frames.message(*RAY)
    if "owner_exit" in lines.columns:
        meant = pl.col("owner_exit").str.starts_with(MEANT).fill_null(value=False)
        lines = lines.filter(~meant)
    lines = _of_no_victim(frames, lines.filter(~pl.col("text").str.contains(ASKED)))
    if lines.is_empty():
        return without_rows(SCHEMA)
    repeated = "repeated" in lines.columns and lines["repeated"].count() > 0
    known = lines.drop_nulls("pid").select("host").drop_nulls().unique()
    # Ray on one machine prints an address that every machine has
    where = pl.when(~pl.col("host").str.contains(NOWHERE)).then("host")
    host = where if known.height == 1 and not repeated else pl.lit(None)
    lines = lines.with_columns(host.cast(pl.String).alias("host"))
    return _as_exits(lines, "its Ray worker is gone, and nothing tells why")


def _of_no_victim(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Drop the lines about ranks that lost a peer, or that may have."""
    victims = frames["events"].filter(pl.col("role") == "victim")["rank"]
    others = pl.concat([victims, frames.message(*SELF_ABORT)["rank"]])
    if not others.len():
        return lines
    # a victim that is not known may be the very process
    own = ~pl.col("rank").is_in(others.implode()) & pl.lit(not others.null_count())
    return lines.filter(own.fill_null(value=False))


def _of_mpi(frames: Frames) -> pl.DataFrame:
    """Return the only rank that called MPI_Abort or left without a word, in SCHEMA.

    One that raised an exception has said more than that.
    """
    lines = frames.message(*OF_MPI)
    if "process" in lines.columns:
        named = pl.coalesce("rank", pl.col("process").cast(pl.Int64))
        lines = lines.with_columns(rank=named)
    lines = _of_no_victim(frames, lines)
    if lines["rank"].n_unique() != 1 or exceptions.uncaught(frames).height:
        return without_rows(SCHEMA)
    return _as_exits(lines.head(1), "it ended the job, and nothing tells why")


def _of_services(frames: Frames) -> pl.DataFrame:
    """Return what MPI, HCCL or JAX's coordination service say is gone, in SCHEMA.

    MPI's internal error is of the rank itself. A heartbeat that is missing tells that
    a process is gone, and not why.
    """
    aborts = frames.message("launchers.mpi.abort")
    silent = frames.message("jax.heartbeat_lost")
    parts = [without_rows(SCHEMA)]
    if "internal" in aborts.columns:
        own = aborts.filter(pl.col("internal").is_not_null())
        parts.append(_as_exits(own, "internal error of MPI"))
    if "task_gone" in silent.columns:
        listed = silent["missing"] if "missing" in silent.columns else None
        tasks = pl.concat_list("task_gone")
        each = tasks if listed is None else pl.coalesce("missing", tasks)
        named = silent.with_columns(each.alias("rank")).explode("rank")
        told = named.drop_nulls("rank").unique("rank", maintain_order=True)
        why = "its heartbeats stopped, and nothing tells why"
        parts.append(_as_exits(told, why).with_columns(by=pl.lit("heartbeat")))
    lost = frames.message("hccl.heartbeat")
    if "gone" in lost.columns:
        lost = lost.filter(pl.col("what") == "Heartbeat Lost")
        lost = lost.unique(["gone", "on_device"], keep="first", maintain_order=True)
        device = pl.format("the heartbeats of device {} there stopped", "on_device")
        found = lost.with_columns(host=pl.col("gone"), rank=pl.lit(None, pl.Int64))
        ends = _as_exits(found, "").with_columns(by=pl.lit("heartbeat"))
        whys = lost.select(device.alias("why"))["why"]
        # of several, some are echoes: it is told of all that others give up
        if ends.height == 1:
            parts.append(ends.with_columns(whys))
    return pl.concat(parts)


def _as_exits(lines: pl.DataFrame, why: str) -> pl.DataFrame:
    """Return lines about ranks that are gone, in SCHEMA."""
    return lines.with_columns(
        pl.lit(None, pl.Int64).alias("code"),
        pl.lit(why).alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.lit("exit").alias("by"),
    ).select(SCHEMA.keys())


@needing(*FATAL, "nccl.cuda.failure", otherwise=SCHEMA)
def _of_lines(frames: Frames) -> pl.DataFrame:
    """Return the ranks that lost a data loading process, or whose GPU failed a call.

    In SCHEMA, used if no traceback reports it. A process that was told to terminate is
    an echo.
    """
    lines = pl.concat([frames.message(*FATAL), _of_nccl(frames)], how="diagonal")
    told = ~pl.col("text").str.contains(r"signal: Terminated")
    return lines.filter(told & ~external_stop.after_stop(frames, lines)).select(
        "rank",
        "host",
        pl.lit(None, pl.Int64).alias("code"),
        pl.col("text").str.head(160).alias("why"),
        pl.lit(None, pl.String).alias("site"),
        pl.lit("traceback").alias("by"),
        *("t", "text", "source", "line"),
    )


def _of_nccl(frames: Frames) -> pl.DataFrame:
    """Return the CUDA errors that persist in their process, as NCCL reports them.

    Only if one process has them: of several, one may have brought down the others.
    """
    lines = frames.message("nccl.cuda.failure")
    mine = lines.filter(
        (pl.col("level") == "WARN") & pl.col("text").str.contains(STICKY)
    )
    alone = mine.select("host", "pid").unique().height == 1
    return mine if alone else mine.clear()
