"""Records as columns: the frame of a part, and the hours that hosts were in jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ncclforensics.history.record import Record

TIME = pl.Datetime("ns", "UTC")
ID = pl.UInt64()
# a name that is told again and again: a number beside a list of texts, in the file and
# in memory, so that millions are compared as numbers
NAME = pl.Categorical()
IDS = ("row", "id", "evidence", "same")
# `row` is the name that the record's own file has or had, `replaces` are the rows of
# which this one is a later word (see `revisions`)
SCHEMA: dict[str, pl.DataType] = {
    "row": ID,
    "id": ID,
    "evidence": ID,
    "same": ID,
    "kept": TIME,
    "t": TIME,
    "outcome": NAME,
    "class": NAME,
    "domain": NAME,
    "confidence": NAME,
    "restart": NAME,
    "headline": pl.String(),
    "call_site": pl.String(),
    "ranks": pl.String(),
    "hosts": pl.List(NAME),
    "devices": pl.List(NAME),
    "nodes": pl.List(NAME),
    "world_size": pl.Int64(),
    "began": TIME,
    "ended": TIME,
    "gpu_hours": pl.Float64(),
    "job": pl.String(),
    "user": NAME,
    "image": NAME,
    "ticket": pl.String(),
    "path": pl.String(),
    "version": pl.String(),
    "node_hours": pl.Float64(),
    "replaces": pl.List(ID),
}
# a host in a week, by its Monday: analyses of its jobs, the hours of these, its share
# in their faults if each host is as likely to be named, and GPUs on it at most
HOURS: dict[str, pl.DataType] = {
    "week": pl.Date(),
    "host": NAME,
    "analyses": pl.Int64(),
    "hours": pl.Float64(),
    "share": pl.Float64(),
    "gpus": pl.Int64(),
}
# how long the evidence of an incident covers, in hours
SPAN = (pl.col("ended") - pl.col("began")).dt.total_milliseconds() / 3_600_000
NODES = pl.col("nodes").list.len()
# what a node can be the cause of; anything else may be the code's
OF_A_NODE = ("hardware", "network", "storage", "platform")


def frame(records: Iterable[Record]) -> pl.DataFrame:
    """Return a row for each record, in the order in which they were kept."""
    rows = []
    for told in records:
        row = msgspec.structs.asdict(told)
        row["class"] = row.pop("slug")
        numbers = {name: int(row[name] or "0", 16) for name in IDS[1:]}
        rows.append({**row, **numbers, "row": int(told.row, 16), "replaces": ()})
    table = pl.DataFrame(rows, {**SCHEMA, "node_hours": pl.Null()})
    hours = pl.when(NODES > 0).then(SPAN.clip(0) * NODES)
    return table.with_columns(hours.alias("node_hours")).sort("kept", "row")


def hours(rows: pl.DataFrame) -> pl.DataFrame:
    """Return what each host took part in, by week, from these rows: see `HOURS`."""
    fault = (pl.col("outcome") == "failure") & pl.col("domain").is_in(OF_A_NODE)
    told = rows.filter(NODES > 0).select(
        pl.col("t").dt.date().dt.truncate("1w").alias("week"),
        pl.col("nodes").alias("host"),
        SPAN.clip(0).fill_null(0).alias("hours"),
        pl.when(fault).then(1 / NODES).otherwise(0.0).alias("share"),
        (pl.col("world_size") / NODES).ceil().cast(pl.Int64).alias("gpus"),
        pl.lit(1, pl.Int64).alias("analyses"),
    )
    return summed(told.explode("host"))


def summed(hours: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `HOURS` with those of one host in one week together."""
    of = [pl.sum(name) for name in ("analyses", "hours", "share")]
    found = hours.group_by("week", "host").agg(*of, pl.max("gpus"))
    return found.select(HOURS.keys()).sort("week", "host")
