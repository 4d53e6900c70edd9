"""What a rank's node did between two looks: its GPUs, and the bytes on its interfaces.

Weak evidence. A GPU at 0 % in both looks ran nothing; one at 100 % may only run NCCL's
kernel, which waits for its peers. Interfaces carry the bytes of others too, and RDMA
passes their counters by. So neither shows whether a rank moved: they are told, and an
idle GPU no longer excuses a process that does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.exits import alive
from ncclforensics.correlate.timing import look_times
from ncclforensics.model import tables
from ncclforensics.model.frames import remembered

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

GPUS = ("nvidia.smi.gpu", "nvidia.smi.gpu_xml")
LINKS = "system.ip_json"
LOCAL = "lo"
MB = 1_000_000


def seen(frames: Frames) -> pl.DataFrame:
    """Return `looks` rows of kinds `gpu` and `network`, whose `moved` is unknown.

    One per rank whose node was asked in two looks.
    """
    mains = alive.seen(frames)
    busy, carried = _utilized(frames), _carried(frames)
    if mains.is_empty() or (busy.is_empty() and carried.is_empty()):
        return tables.empty("looks")
    percent = pl.col("busiest").cast(pl.String)
    words = pl.concat_str(pl.lit("was on a node whose GPUs were up to "), percent)
    idle = pl.lit("was on a node whose GPUs ran nothing in both looks")
    gpu = busy.with_columns(
        pl.lit("gpu").alias("kind"),
        pl.when(pl.col("busiest") == 0)
        .then(idle)
        .otherwise(pl.concat_str(words, pl.lit(" % busy")))
        .alias("what"),
    )
    many = (pl.col("bytes") / MB).round(1).cast(pl.String)
    link = carried.with_columns(
        pl.lit("network").alias("kind"),
        pl.concat_str(
            *(pl.lit("was on a node whose interfaces carried "), many, pl.lit(" MB"))
        ).alias("what"),
    )
    told = pl.concat([gpu, link], how="diagonal")
    ranks = mains.filter(pl.col("rank").is_not_null()).select("host", "rank")
    rows = told.join(ranks, on="host", maintain_order="left")
    return tables.conform("looks", rows.drop("busiest", "bytes", "host", strict=False))


@remembered
def idle(frames: Frames) -> frozenset[str]:
    """Return the hosts whose GPUs ran nothing in both looks."""
    return frozenset(_utilized(frames).filter(pl.col("busiest") == 0)["host"])


@remembered
def _utilized(frames: Frames) -> pl.DataFrame:
    """Return the highest utilization of any GPU in % per host, `busiest`."""
    told = frames.message(*GPUS)
    schema = {"host": pl.String(), "busiest": pl.Int64(), **_PAIR}
    if "utilization" not in told.columns:
        return tables.without_rows(schema)
    looked = _looked(frames, told.drop_nulls("utilization"))
    found = looked.with_columns(pl.col("utilization").max().over("host"))
    return _last(found, pl.col("utilization").alias("busiest")).select(*schema)


@remembered
def _carried(frames: Frames) -> pl.DataFrame:
    """Return how many `bytes` the interfaces of a host carried between its looks."""
    told = frames.message(LINKS)
    schema = {"host": pl.String(), "bytes": pl.Int64(), **_PAIR}
    if "carried" not in told.columns:
        return tables.without_rows(schema)
    outside = told.drop_nulls("carried").filter(pl.col("interface") != LOCAL)
    at = ["host", "taken"]
    whole = _looked(frames, outside).with_columns(pl.col("carried").sum().over(at))
    grown = pl.col("carried") - pl.col("carried_a")
    return _last(whole, grown.alias("bytes")).select(*schema)


_PAIR = {
    "apart_ms": pl.Int64(),
    "t": tables.TIME,
    "earlier_source": pl.String(),
    **tables.CITE,
}


def _looked(frames: Frames, lines: pl.DataFrame) -> pl.DataFrame:
    """Return those of `lines` that are of a look, with the time `taken` of it."""
    looks = look_times.taken(frames)
    return lines.drop_nulls("host").join(looks, on="source").sort("taken", "line")


def _last(lines: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """Return a row per host of its last look with the one before (`…_a`)."""
    one = lines.unique(["host", "taken"], keep="first", maintain_order=True)
    before = [pl.col(c).shift(1).over("host").name.suffix("_a") for c in one.columns]
    pairs = one.with_columns(before).drop_nulls("taken_a")
    apart = (pl.col("taken") - pl.col("taken_a")).dt.total_milliseconds()
    return pairs.unique("host", keep="last", maintain_order=True).with_columns(
        value.cast(pl.Int64),
        apart.alias("apart_ms"),
        pl.col("taken").alias("t"),
        pl.col("source_a").alias("earlier_source"),
    )
