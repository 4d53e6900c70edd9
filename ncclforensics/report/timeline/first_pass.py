"""The first pass over all calls, some ranks at a time: groups, numbers, lateness.

Calls come from a LazyFrame, so they may be in memory or in a parquet file. Reading one
slab of ranks at a time keeps peak memory low, even for sixteen thousand ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.tables import done
from ncclforensics.report.timeline import naming

if TYPE_CHECKING:
    from collections.abc import Iterator

SLAB = 1024
NAMES = ("pg", "pg_desc")
ENTRY = ("rank", "t", "t_started", "t_completed", "record_id", "state", "src", "dst")
Tick = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Survey:
    """Summary of all calls.

    `groups` has `gid kind` and naming.KEY; `spans` the first and last `n` of each
    `rank gid`; `numbers` one row per `gid n`: whether any rank `finished` it, its first
    time `t`, its smallest `record_id`, and the means from which stragglers are found.
    """

    groups: pl.DataFrame
    spans: pl.DataFrame
    numbers: pl.DataFrame


def slabs(ranks: pl.Series) -> Iterator[pl.Series]:
    """Split sorted ranks into slabs of SLAB ranks."""
    for at in range(0, ranks.len(), SLAB):
        yield ranks.slice(at, SLAB)


def entries(calls: pl.LazyFrame, ranks: pl.Series) -> pl.DataFrame:
    """Read the calls of a slab of ranks, with `pg pg_desc p2p n` and `done`."""
    low, high = ranks.min(), ranks.max()
    return (
        calls.filter(pl.col("rank").is_between(low, high))
        .select(*ENTRY, *naming.keyed(), done().alias("done"))
        .drop_nulls("n")
        # grouping and joining by categoricals is several times faster than by strings
        .with_columns(pl.col(NAMES).cast(pl.Categorical))
        .collect()
        .pipe(_passed)
    )


def _passed(rows: pl.DataFrame) -> pl.DataFrame:
    """Mark a P2P call as done if a later one between the same two ranks is done.

    Batched P2P entries of NCCL are often never marked (pytorch#137969).
    """
    p2p = rows.filter("p2p")
    if p2p["done"].all():
        return rows.drop("src", "dst")
    pair = ["rank", "pg", "pg_desc", "src", "dst"]
    newest = (
        p2p.filter("done").group_by(pair).agg(pl.col("record_id").max().alias("to"))
    )
    passed = (pl.col("record_id") < pl.col("to")).fill_null(False) & pl.col("p2p")
    return (
        rows.join(newest, on=pair, how="left", nulls_equal=True, maintain_order="left")
        .with_columns((pl.col("done") | passed).alias("done"))
        .drop("to", "src", "dst")
    )


def survey(
    calls: pl.LazyFrame, ranks: pl.Series, told: pl.DataFrame, tick: Tick
) -> Survey:
    """Summarize all calls in one pass.

    `told` has groups that are known only from logs (`rank`, KEY). Raises what `tick`
    raises, which is how a user interrupts.
    """
    spans, numbers = [], []
    whole = -(-ranks.len() // SLAB)
    for number, slab in enumerate(slabs(ranks)):
        tick("surveying calls", number, whole)
        rows = entries(calls, slab)
        spans.append(
            rows.group_by("rank", *naming.KEY)
            .agg(pl.col("n").min().alias("first"), pl.col("n").max().alias("last"))
            .with_columns(pl.col(NAMES).cast(pl.String))
        )
        numbers.append(_numbers(rows))
    found = pl.concat(spans) if spans else told.clear()
    members = pl.concat([found.select("rank", *naming.KEY), told]).unique()
    groups = naming.kinds(members)
    ids = groups.select("gid", *naming.KEY)
    span = found.join(ids, on=naming.KEY) if spans else _no_spans()
    return Survey(groups, span.drop(naming.KEY, strict=False), _merged(numbers, ids))


def _no_spans() -> pl.DataFrame:
    whole = pl.Int64()
    return pl.DataFrame(
        schema={"rank": whole, "first": whole, "last": whole, "gid": pl.UInt32()}
    )


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Aggregate a slab's calls by group and number, as sums that can be added up."""
    ns = pl.col("t").dt.epoch("ns")
    took = pl.col("t_completed").dt.epoch("ns") - ns
    return (
        rows.group_by(*naming.KEY, "n")
        .agg(
            pl.col("done").any().alias("finished"),
            pl.col("record_id").min(),
            ns.min().alias("t"),
            ns.max().alias("t_last"),
            (ns - ns.min()).sum().alias("after"),
            ns.count().alias("timed"),
            took.sum().alias("took"),
            took.max().alias("took_most"),
            took.min().alias("took_least"),
            took.count().alias("took_timed"),
        )
        .with_columns(pl.col(NAMES).cast(pl.String))
    )


def _merged(parts: list[pl.DataFrame], ids: pl.DataFrame) -> pl.DataFrame:
    """Add up the aggregates of all slabs."""
    schema = {
        "gid": pl.UInt32(),
        "n": pl.Int64(),
        "finished": pl.Boolean(),
        "record_id": pl.Int64(),
        "t": pl.Int64(),
        "t_last": pl.Int64(),
        "t_mean": pl.Int64(),
        "took_mean": pl.Int64(),
        "took_least": pl.Int64(),
    }
    if not parts:
        return pl.DataFrame(schema=schema)
    numbered = pl.concat(
        part.join(ids, on=naming.KEY).drop(naming.KEY) for part in parts
    )
    if len(parts) > 1:
        first = pl.col("t").min()
        numbered = numbered.group_by("gid", "n").agg(
            pl.col("finished").any(),
            pl.col("record_id").min(),
            first,
            pl.col("t_last").max(),
            (pl.col("after") + (pl.col("t") - first) * pl.col("timed")).sum(),
            pl.col("timed").sum(),
            pl.col("took").sum(),
            pl.col("took_most").max(),
            pl.col("took_least").min(),
            pl.col("took_timed").sum(),
        )
    whole = pl.col("took_timed") == pl.col("timed")
    return numbered.select(
        *("gid", "n", "finished", "record_id", "t", "t_last"),
        (pl.col("t") + pl.col("after") // pl.col("timed")).alias("t_mean"),
        pl.when(whole).then(pl.col("took") // pl.col("took_timed")).alias("took_mean"),
        "took_least",
    ).cast(schema)  # type: ignore[arg-type]
