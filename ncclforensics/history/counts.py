"""Counts incidents by host, GPU, class, user, image or failure; marks who stands out.

A host or GPU is tested on what can be its fault: hardware, network, storage, platform.
A crash or a missing rank may be the code's, which puts rank 0 on the same host day by
day. The same failure again within a day is one event: jobs restart into the same fault.
A user or an image is tested on the jobs that failed. Classes and failures only differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import __version__
from ncclforensics.history import columns, exposure
from ncclforensics.history.exact import marked
from ncclforensics.history.exposure import ON
from ncclforensics.history.limits import ONE_EVENT_S
from ncclforensics.history.results import Count, Counts, Standing
from ncclforensics.report.contract import Tool
from ncclforensics.report.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ncclforensics.correlate.runs.time_window import Span
    from ncclforensics.history.exact import Mark
    from ncclforensics.history.exposure import Exposure
    from ncclforensics.history.results import By
    from ncclforensics.history.store import Store

TOOL = Tool("ncclforensics", __version__)
FAILED = pl.col("outcome") == "failure"
READ: dict[By, tuple[str, ...]] = {
    "host": ("hosts", "domain", "same"),
    "gpu": ("hosts", "devices", "domain", "same"),
    "class": (),
    "user": ("user", "job", "node_hours", "domain"),
    "image": ("image", "job", "node_hours", "domain"),
    "failure": ("same", "headline"),
}
# a time limit or a preemption is no failure of a job
A_FAILURE = FAILED & (pl.col("domain") != "scheduler")


def counts(
    store: Store,
    by: By,
    span: Span,
    given: Mapping[str, float] | None = None,
    most: int | None = None,
    only: Collection[str] = (),
) -> Counts:
    """Count the failures in a store; return the first `most` rows, or those of `only`.

    `given` are node hours by host from the site's accounting.
    """
    rows = store.rows("t", "class", "outcome", *READ[by], where=within(span))
    named = _named(rows, by)
    table = _counted(named.filter(FAILED), by)
    held: Exposure | None = None
    if by in ("host", "gpu"):
        held = exposure.of_hosts(store, span, given, gpus=by == "gpu")
    elif by in ("user", "image"):
        held = exposure.of_jobs(named)
    events: dict[str, int] = dict(table.select("name", "events").iter_rows())
    marks: dict[str, Mark] = {}
    if held is not None:
        marks = marked(events, held.chances(events), held.compared)
    out = [name for name, mark in marks.items() if mark.stands_out]
    first = pl.col("name").is_in(out)
    ordered = table.sort(
        *(first, "events", "incidents", "name"), descending=[True, True, True, False]
    )
    mine = pl.col("name").is_in([*only]) if only else pl.lit(True)
    shown = ordered.filter(mine).head(len(ordered) if most is None else most)
    classes = _classes(named.filter(FAILED), shown["name"])
    return Counts(
        tool=TOOL,
        by=by,
        since=rfc3339(span.since),
        until=rfc3339(span.until),
        incidents=rows.filter(FAILED).height,
        events=sum(events.values()),
        names=table.height,
        compared=0 if held is None else held.compared,
        measure=None if held is None else held.measure,
        rows=tuple(_row(r, classes, marks, held) for r in shown.iter_rows(named=True)),
    )


def within(span: Span) -> pl.Expr:
    """Return the condition that `t` is in a span; no time is only in all of it."""
    found = pl.lit(True)
    if span.since is not None:
        found &= pl.col("t") >= pl.lit(span.since).cast(columns.TIME)
    if span.until is not None:
        found &= pl.col("t") <= pl.lit(span.until).cast(columns.TIME)
    return found


def naming(hosts: Iterable[str]) -> pl.Expr:
    """Return the condition that an incident names any of these hosts."""
    return pl.any_horizontal(pl.col("hosts").list.contains(host) for host in hosts)


def _named(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return a row for each name that an incident is counted under, as `name`."""
    match by:
        case "host":
            named = rows.rename({"hosts": "name"}).explode("name")
        case "gpu":
            # of several hosts nothing says whose the GPUs are
            alone = rows.filter(pl.col("hosts").list.len() == 1)
            name = pl.format("{}" + ON + "{}", "hosts", "devices").alias("name")
            named = alone.explode("hosts").explode("devices").with_columns(name)
        case "failure":
            named = rows.rename({"same": "name"})
        case _:
            named = rows.with_columns(pl.col(by).alias("name"))
    return named.drop_nulls("name")


def _counted(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return for each name its incidents and events, the first and the last time."""
    told = [pl.first(c) for c in ("headline",) if c in rows.columns]
    more = [exposure.jobs(A_FAILURE).alias("events")] if "job" in rows.columns else []
    table = rows.group_by("name").agg(
        *(pl.len().alias("incidents"), pl.min("t").alias("first")),
        *(pl.max("t").alias("last"), *told, *more),
    )
    if by in ("host", "gpu"):
        return table.join(_events(rows), on="name", how="left").with_columns(
            pl.col("events").fill_null(0)
        )
    return table if more else table.with_columns(pl.col("incidents").alias("events"))


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """Return how many faults of a node each name has, one for repeated ones."""
    faults = rows.filter(pl.col("domain").is_in(columns.OF_A_NODE)).select(
        "name", "t", pl.struct("name", "same").hash().alias("key")
    )
    of_one = faults.sort("key", "t")
    day = pl.duration(seconds=ONE_EVENT_S)
    apart = (pl.col("t").diff() >= day) | (pl.col("key") != pl.col("key").shift())
    fresh = of_one.filter(apart.fill_null(True))
    return fresh.group_by("name").agg(pl.len().alias("events"))


def _classes(rows: pl.DataFrame, names: pl.Series) -> dict[Any, dict[str, int]]:
    """Return for each of the names how many incidents of which class, most first."""
    mine = rows.filter(pl.col("name").is_in(names.implode()))
    found: dict[Any, dict[str, int]] = {}
    table = (
        mine.group_by("name", "class")
        .len()
        .sort("len", "class", descending=[True, False])
    )
    for name, slug, number in table.iter_rows():
        found.setdefault(name, {})[slug] = number
    return found


def _row(
    row: Mapping[str, Any],
    classes: Mapping[Any, dict[str, int]],
    marks: Mapping[str, Mark],
    held: Exposure | None,
) -> Count:
    name = row["name"]
    hours = None if held is None else held.hours_of(name)
    return Count(
        name=f"{name:016x}" if isinstance(name, int) else name,
        incidents=row["incidents"],
        events=row["events"],
        first=time(row["first"]),
        last=time(row["last"]),
        classes=classes[name],
        headline=row.get("headline"),
        hours=None if hours is None else round(hours, 1),
        per_1000_hours=round(1000 * row["events"] / hours, 3) if hours else None,
        standing=_standing(marks.get(name)),
    )


def _standing(mark: Mark | None) -> Standing | None:
    if mark is None:
        return None
    numbers = (mark.expected, mark.tail, mark.corrected)
    expected, tail, corrected = (float(f"{n:.3g}") for n in numbers)
    return Standing(expected, tail, corrected, mark.stands_out)


def time(moment: Any) -> str | None:
    """Return a time of a row as the JSON has it; polars gives it in microseconds."""
    return None if moment is None else str(moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
