"""Kernel logs of the job's hosts: which lines are of its time, and which GPU they mean.

A kernel log covers weeks and has no ranks. Its times and the job's may be in two time
zones, so only a day's distance proves that they are unrelated.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.evidence import external_stop
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

OUTSIDE = r"^(?:kernel|nvidia|cloud)\."
DAY_NS = 86_400_000_000_000
CLOSE_NS = 900_000_000_000  # kernel lines this close to the failure belong to it
# time zones are whole quarters of an hour apart; a kernel logs at once
QUARTER_NS = 900_000_000_000
AT_ONCE_NS = 120_000_000_000
_PCI = r"(?i)^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})"


@dataclass(frozen=True, slots=True)
class Span:
    """When a job ran and failed, on `clock`: a time column of `events`.

    `clock` is "yearless" if no line has a full date.
    """

    clock: str
    first: datetime
    last: datetime
    onset: datetime
    failed: datetime


def is_alone(frames: Frames) -> bool:
    """Whether a kernel log is all that was given, so that its host is in question."""
    own = pl.col("message").str.contains(r"^(?:kernel|uncaught)\.|^system\.sel$")
    others = frames["events"].filter(~own)
    jobs = ("collectives", "positions", "ranks")
    return others.is_empty() and not any(frames.has(name) for name in jobs)


@remembered
def span(frames: Frames) -> Span | None:
    """Return when a job ran and failed, by its own lines; None if none has a time.

    A job that stopped without an error failed after its last line.
    """
    own = frames["events"].filter(~pl.col("message").str.contains(OUTSIDE))
    stopped = external_stop.slurm_time(frames.message("slurm.cancelled"))
    columns = ("t", "yearless", "role")
    job = pl.concat([part.select(columns) for part in (own, stopped)])
    clock = "t" if job["t"].count() else "yearless"
    told = job.drop_nulls(clock)
    if told.is_empty():
        return None
    failing = told.filter(pl.col("role").is_in(["culprit", "victim"]))[clock]
    first: Any = told[clock].min()
    last: Any = told[clock].max()
    failed: Any = failing.min() if failing.len() else last
    return Span(clock, first, last, _onset(frames, clock, failed), failed)


def of_this_job(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Drop lines a day or more away from the job; prefer those close to its failure.

    Adds `is_far`: nothing failed when they were printed, in any time zone.
    """
    told = lines.with_columns(pl.lit(False).alias("is_far"))
    job = span(frames) if lines.height else None
    if job is None or job.clock not in lines.columns:
        return told
    t = pl.col(job.clock)
    day = pl.duration(nanoseconds=DAY_NS)
    near = t.is_between(pl.lit(job.first) - day, pl.lit(job.last) + day)
    kept = told.filter(t.is_null() | near)
    close = pl.duration(nanoseconds=CLOSE_NS)
    timely = kept.filter(
        t.is_between(pl.lit(job.onset) - close, pl.lit(job.failed) + close)
    )
    late = (t - pl.lit(job.onset)).dt.total_nanoseconds()
    another_zone = (late - (late / QUARTER_NS).round() * QUARTER_NS).abs() <= AT_ONCE_NS
    return next(
        (part for part in (timely, kept.filter(another_zone)) if part.height),
        kept.with_columns(t.is_not_null().alias("is_far")),
    )


def _onset(frames: Frames, clock: str, failed: datetime) -> datetime:
    """Return when the first call that timed out began to wait, or else `failed`."""
    waits = frames.message("c10d.watchdog.timeout")
    if "ran_ms" not in waits.columns:
        return failed
    began = (waits[clock] - pl.Series(waits["ran_ms"]).cast(pl.Duration("ms"))).min()
    return min(began, failed) if isinstance(began, datetime) else failed


def bus_id(pci: pl.Expr) -> pl.Expr:
    """Return a kernel's PCI address as NCCL prints it: `0000:55:00.0` is `55000`."""
    part = pci.str.extract_groups(_PCI).struct
    domain = part.field("1").fill_null("0").str.to_integer(base=16, strict=False)
    bus = part.field("2").str.to_integer(base=16, strict=False)
    device = part.field("3").str.to_integer(base=16, strict=False)
    # the domain precedes the bus, the device follows it; the function is always 0
    whole = domain * 2**20 + bus * 2**12 + device * 2**4
    return whole.map_elements(lambda n: format(n, "x"), return_dtype=pl.String)


def ranks_on(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Fill `rank` of `lines`, which have `host` and `pci`, from the owner of that GPU.

    A line without a host belongs to the one host of the job, if it has only one.
    """
    owners = frames["ranks"].select("host", "bus_id", "rank").drop_nulls()
    if lines.is_empty() or owners.is_empty():
        return lines
    hosts = frames["ranks"]["host"].drop_nulls().unique()
    only = hosts.item() if hosts.len() == 1 else None
    short = pl.col("host").str.extract(r"^([^.]+)")
    owner = owners.select(
        short.alias("_host"),
        pl.col("bus_id").str.to_lowercase(),
        pl.col("rank").alias("_rank"),
    ).unique(["_host", "bus_id"], keep="none", maintain_order=True)
    return (
        lines.with_columns(
            pl.coalesce("host", pl.lit(only, pl.String)).alias("host"),
            bus_id(pl.col("pci")).alias("bus_id"),
        )
        .with_columns(short.alias("_host"))
        .join(owner, on=["_host", "bus_id"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("_rank", "rank").alias("rank"))
        .drop("_host", "_rank")
    )
