"""Kernel logs beside a job: which of their lines are of its time, and whose GPU it is.

A kernel log goes back for weeks and knows no ranks. Its times and the job's may be of
two zones, so only a day's distance proves that they have nothing to do with each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ncclforensics.tables import Frames

OUTSIDE = r"^(?:kernel|nvidia|slurm|cloud)\."
DAY_NS = 86_400_000_000_000
CLOSE_NS = 900_000_000_000  # kernel lines this close to the failure are its own
_PCI = r"(?i)^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})"


def of_this_job(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Drop lines a day or more away from the job; prefer those close to its failure."""
    job = frames["events"].filter(~pl.col("message").str.contains(OUTSIDE))
    first, last = job["t"].min(), job["t"].max()
    if first is None or last is None:
        return lines
    day = pl.duration(nanoseconds=DAY_NS)
    t = pl.col("t")
    near = t.is_between(pl.lit(first) - day, pl.lit(last) + day)
    kept = lines.filter(t.is_null() | near)
    failed = job.filter(pl.col("role").is_in(["culprit", "victim"]))["t"].min()
    if failed is None:
        return kept
    close = pl.duration(nanoseconds=CLOSE_NS)
    timely = kept.filter(
        t.is_between(pl.lit(_onset(frames, failed)) - close, pl.lit(failed) + close)
    )
    return timely if timely.height else kept


def _onset(frames: Frames, failed: object) -> object:
    """Return when the first timeout's call began to wait, or else `failed`."""
    waits = frames.message("c10d.watchdog.timeout")
    if "ran_ms" not in waits.columns:
        return failed
    began = (waits["t"] - pl.Series(waits["ran_ms"]).cast(pl.Duration("ms"))).min()
    return failed if began is None else min(began, failed)  # type: ignore[call-overload]


def bus_id(pci: pl.Expr) -> pl.Expr:
    """Return a kernel's PCI address as NCCL prints it: `0000:55:00.0` is `55000`."""
    part = pci.str.extract_groups(_PCI).struct
    domain = part.field("1").fill_null("0").str.to_integer(base=16, strict=False)
    bus = part.field("2").str.to_integer(base=16, strict=False)
    device = part.field("3").str.to_integer(base=16, strict=False)
    # a domain in front of the bus, a device behind it; the function is always 0
    whole = domain * 2**20 + bus * 2**12 + device * 2**4
    return whole.map_elements(lambda n: format(n, "x"), return_dtype=pl.String)


def ranks_on(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Fill `rank` of `lines`, which have `host` and `pci`, from who owns that GPU.

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
