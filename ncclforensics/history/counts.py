"""Counts incidents by host, GPU, class, user, image or failure; marks who stands out.

A host or GPU is tested on what can be its fault: hardware, network, storage, platform.
A crash or a missing rank may be the code's, which puts rank 0 on the same host day by
day. The same failure again within a day is one event: jobs restart into the same fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import __version__
from ncclforensics.history import columns
from ncclforensics.history.exact import marked
from ncclforensics.history.exposure import exposure
from ncclforensics.history.limits import ONE_EVENT_S
from ncclforensics.history.results import Count, Counts, Standing
from ncclforensics.report.contract import Tool
from ncclforensics.report.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.correlate.runs.time_window import Span
    from ncclforensics.history.exact import Mark
    from ncclforensics.history.exposure import Exposure
    from ncclforensics.history.results import By
    from ncclforensics.history.store import Store

OF_A_NODE = ("hardware", "network", "storage", "platform")
NOBODYS = "scheduler"  # a time limit or a preemption is no failure of anybody
TOOL = Tool("ncclforensics", __version__)
HELD_BY = {"host": ("hosts",), "gpu": ("hosts", "devices"), "user": ("user",)}
HELD_BY |= {"image": ("image",), "class": (), "failure": ("headline",)}
HOUR = 1000  # hours that a rate is about


def counts(
    store: Store, by: By, span: Span, given: Mapping[str, float] | None = None
) -> Counts:
    """Count the failures of a store; `given` are node hours by host, from elsewhere."""
    read = ("t", "class", "domain", "same", *HELD_BY[by])
    where = within(span) & (pl.col("outcome") == "failure")
    rows = store.rows(*read, where=where)
    table = _counted(_named(rows, by), by)
    held = exposure(store, by, span, given)
    events = dict(table.select("name", "events").iter_rows())
    marks: dict[str, Mark] = {}
    if held is not None:
        marks = marked(events, held.of(events), held.compared)
    found = [_row(row, marks, held) for row in table.iter_rows(named=True)]
    found.sort(key=lambda c: (-_evidence(c), -c.events, -c.incidents, c.name))
    return Counts(
        tool=TOOL,
        by=by,
        since=rfc3339(span.since),
        until=rfc3339(span.until),
        incidents=rows.height,
        events=sum(events.values()),
        compared=0 if held is None else max(held.compared, len(marks)),
        measure=None if held is None else held.measure,
        rows=tuple(found),
    )


def within(span: Span) -> pl.Expr:
    """Return the condition that `t` is in a span; without a time only in all of it."""
    found = pl.lit(True)
    if span.since is not None:
        found &= pl.col("t") >= pl.lit(span.since).cast(columns.TIME)
    if span.until is not None:
        found &= pl.col("t") <= pl.lit(span.until).cast(columns.TIME)
    return found


def named(hosts: Iterable[str]) -> pl.Expr:
    """Return the condition that an incident names any of these hosts."""
    return pl.any_horizontal(pl.col("hosts").list.contains(host) for host in hosts)


def _named(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return a row for each name that an incident is counted under, as `name`."""
    match by:
        case "host":
            return rows.rename({"hosts": "name"}).explode("name").drop_nulls("name")
        case "gpu":
            # of several hosts nothing says whose the GPUs are
            alone = rows.filter(pl.col("hosts").list.len() == 1)
            each = alone.explode("hosts").explode("devices").drop_nulls("devices")
            return each.with_columns(
                pl.format("{} GPU {}", "hosts", "devices").alias("name")
            )
        case "failure":
            return rows.with_columns(pl.format("{}", "same").alias("name"))
    return rows.with_columns(pl.col(by).alias("name")).drop_nulls("name")


def _counted(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return for each name its incidents and events, the first and the last time."""
    tested = (
        pl.col("domain").is_in(OF_A_NODE)
        if by in ("host", "gpu")
        else (pl.col("domain") != NOBODYS)
    )
    rows = rows.sort("t", nulls_last=False)
    apart = pl.col("t").diff().over("name", "same").dt.total_seconds() >= ONE_EVENT_S
    told = ["class", *(["headline"] if "headline" in rows.columns else [])]
    return (
        rows.with_columns((tested & apart.fill_null(True)).alias("event"))
        .group_by("name")
        .agg(
            pl.len().alias("incidents"),
            pl.sum("event").alias("events"),
            pl.min("t").alias("first"),
            pl.max("t").alias("last"),
            *(pl.last(name) for name in told),
        )
    )


def _row(
    row: Mapping[str, Any], marks: Mapping[str, Mark], held: Exposure | None
) -> Count:
    mark = marks.get(row["name"])
    hours = None if held is None or mark is None else held.hours(row["name"])
    return Count(
        name=row["name"],
        incidents=row["incidents"],
        events=row["events"],
        first=time(row["first"]),
        last=time(row["last"]),
        last_class=row["class"],
        headline=row.get("headline"),
        hours=None if hours is None else round(hours, 1),
        per_1000_hours=round(HOUR * row["events"] / hours, 3) if hours else None,
        standing=None if mark is None else _standing(mark),
    )


def _standing(mark: Mark) -> Standing:
    expected, tail, corrected = (
        float(f"{n:.3g}") for n in (mark.expected, mark.tail, mark.corrected)
    )
    return Standing(expected, tail, corrected, mark.stands_out)


def _evidence(count: Count) -> bool:
    return count.standing is not None and count.standing.stands_out


def time(moment: Any) -> str | None:
    """Return a time of a row as the JSON has it; polars gives it in microseconds."""
    if moment is None:
        return None
    return str(moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
