"""Progress between two looks at the processes themselves: CPU time and storage bytes.

A process whose main thread was never put on a CPU in between did nothing, wherever it
stands. One that ran may wait in a loop, as NCCL does, and proves nothing; nor does a
process whose GPU may work while its host waits. Bytes to or from storage are
work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.correlate.timing import machine_motion
from ncclforensics.correlate.timing.duplicate_files import LEAST_MS
from ncclforensics.model import tables
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

# of the time between two looks, by all threads: those that only poll, such as those of
# a store or of Gloo, use less; one that trains while the main thread waits uses more
STILL = 0.01
# written by a log or a monitor, not by a rank that reads data or saves
LEAST_BYTES = 1 << 20
MIB = 1 << 20
# of a core: a rank that uses so much outside of any call computes
COMPUTES = 0.5
# times a second that a main thread runs; one that polls a queue does once in seconds
AGAIN_AND_AGAIN = 10
RARELY = 1  # times a second; one that makes steps runs more often
COUNTED = ("switches", "storage_bytes", "called_bytes")


def worked(frames: Frames) -> pl.DataFrame:
    """Return `looks` rows of kind `process` for the ranks that were looked at twice."""
    pairs = _pairs(frames)
    if pairs.is_empty():
        return tables.empty("looks")
    apart, used = _apart(), _used()
    passed = (pl.col("storage_bytes") - pl.col("storage_bytes_a")).fill_null(0)
    still = (
        (used >= 0)
        & (used * 1000 < STILL * apart)
        & (apart >= LEAST_MS)
        & ~_waits_for_gpu(frames)
    )
    still &= (pl.col("switches") == pl.col("switches_a")).fill_null(False)
    is_moving = passed >= LEAST_BYTES
    moved = pl.when(is_moving).then(True).when(still & (passed == 0)).then(False)
    seconds = (apart / 1000).round(0).cast(pl.Int64).cast(pl.String)
    stood = pl.concat_str(
        pl.lit("did not run in "),
        *(seconds, pl.lit(" s, in state "), pl.col("state"), pl.lit(" ")),
        pl.col("wchan").fill_null(""),
    ).str.strip_chars_end()
    bytes_ = pl.concat_str(
        *(pl.lit("moved "), (passed // MIB).cast(pl.String)),
        *(pl.lit(" MiB to or from storage in "), seconds, pl.lit(" s")),
    )
    busy = pl.concat_str(
        *(pl.lit("used "), used.round(1).cast(pl.String), pl.lit(" s of CPU in ")),
        *(seconds, pl.lit(" s")),
    )
    rows = pairs.with_columns(
        pl.lit("process").alias("kind"),
        moved.alias("moved"),
        pl.when(is_moving)
        .then(bytes_)
        .when(~moved)
        .then(stood)
        .otherwise(busy)
        .alias("what"),
        apart.alias("apart_ms"),
        pl.col("source_a").alias("earlier_source"),
    )
    return tables.conform("looks", rows.select(*tables.SCHEMAS["looks"]))


@remembered
def _pairs(frames: Frames) -> pl.DataFrame:
    """Return the last look at each rank's process with the previous one (`…_a`)."""
    told = frames.message(alive.PROCESS)
    if told.is_empty():
        return told
    key = ["host", "rank", "pid"]
    mains = _with_workers(told).drop_nulls([*key, "cpu_s", "t"])
    mains = mains.sort(*key, "t").unique([*key, "t"], maintain_order=True)
    before = [
        pl.col(c).shift(1).over(key).alias(f"{c}_a")
        for c in (*COUNTED, "cpu_s", "t", "source")
    ]
    pairs = mains.with_columns(before).drop_nulls("source_a")
    return pairs.unique(key, keep="last", maintain_order=True)


def _apart() -> pl.Expr:
    return (pl.col("t") - pl.col("t_a")).dt.total_milliseconds()


def _used() -> pl.Expr:
    return pl.col("cpu_s") - pl.col("cpu_s_a")


@remembered
def at_work(frames: Frames) -> pl.DataFrame:
    """Return the processes that worked between two looks: `rank spins`, one row a rank.

    They moved bytes, or their main thread ran again and again. `spins` if they only
    used CPU time, which a host that waits for its GPU may do as well.
    """
    pairs = _pairs(frames)
    if pairs.is_empty():
        return pl.DataFrame(schema={"rank": pl.Int64(), "spins": pl.Boolean()})
    seconds = _apart() / 1000
    computes = _used() >= COMPUTES * seconds
    did = pl.any_horizontal(
        pl.col("storage_bytes") - pl.col("storage_bytes_a") >= LEAST_BYTES,
        pl.col("called_bytes") - pl.col("called_bytes_a") >= LEAST_BYTES,
        pl.col("switches") - pl.col("switches_a") >= AGAIN_AND_AGAIN * seconds,
    ).fill_null(False)
    works = pairs.filter((_apart() >= LEAST_MS) & (computes | did))
    return works.select("rank", (~did & _waits_for_gpu(frames)).alias("spins"))


def _waits_for_gpu(frames: Frames) -> pl.Expr:
    """Whether a process may wait for its GPU: it has one that was not idle."""
    idle = pl.col("host").is_in(list(machine_motion.idle(frames)))
    return pl.col("uses_gpu") & ~idle


def steps(frames: Frames) -> frozenset[int]:
    """Return the ranks that may have come back to the same place between two looks.

    Their main threads ran more often than those do that only poll now and then.
    """
    pairs = _pairs(frames)
    if pairs.is_empty():
        return frozenset()
    often = pl.col("switches") - pl.col("switches_a") > RARELY * _apart() / 1000
    return frozenset(pairs.filter(often.fill_null(True))["rank"])


def standing(frames: Frames) -> int:
    """Count the ranks that stood at one place, or did not run, if all of them did.

    Between two looks; in a job that works, somebody runs.
    """
    looks = frames["looks"]
    if looks.is_empty() or looks["moved"].any():
        return 0
    same = pl.col("moved").eq_missing(False)
    stood = looks.group_by("kind").agg(same.all(), pl.len())
    of_process = stood.filter(
        pl.col("kind").is_in(["process", "stack"]) & pl.col("moved")
    )
    return int(of_process["len"].sum())


def _with_workers(told: pl.DataFrame) -> pl.DataFrame:
    """Return the main processes, with what their workers used added to their own.

    A rank may wait for its data loader, or for a child that saves.
    """
    of_rank = ["source", "host", "rank"]
    summed = ("cpu_s", "storage_bytes", "called_bytes")
    whole = [pl.col(c).sum().over(of_rank).alias(c) for c in summed]
    known = pl.col("cpu_s").is_not_null().all().over(of_rank)
    return told.with_columns(
        *(
            pl.when(known).then(total).alias(total.meta.output_name())
            for total in whole
        ),
        pl.col("uses_gpu").any().over(of_rank),
        pl.col("taken").alias("t"),
    ).filter("is_main")
