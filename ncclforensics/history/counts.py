"""Counts incidents by host, GPU, class, user, image or failure; marks who stands out.

A host or GPU is tested on what can be its fault: hardware, network, storage, platform.
A crash or a missing rank may be the code's, which puts rank 0 on the same host day by
day. A user or an image is tested on the jobs that failed. Classes and failures are
only counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import __version__
from ncclforensics.history import columns, exposure, tallies
from ncclforensics.history.results import Count, Counts, Standing
from ncclforensics.report.contract import Tool
from ncclforensics.report.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ncclforensics.history.exposure import Exposure
    from ncclforensics.history.results import By
    from ncclforensics.history.store import Store
    from ncclforensics.model.span import Span

TOOL = Tool("ncclforensics", __version__)
STANDING = ("expected", "tail", "corrected")


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
    where = within(span) if by in tallies.OF_JOBS else within(span) & tallies.FAILED
    found = store.rows("t", "class", "outcome", *tallies.READ[by], where=where)
    rows = tallies.named(found, by)
    held: Exposure | None = None
    jobs: pl.DataFrame | None = None
    if by in ("host", "gpu"):
        held = exposure.of_hosts(store, span, given, gpus=by == "gpu")
    elif by in tallies.OF_JOBS:
        jobs = tallies.jobs(rows, by)
        held = exposure.of_jobs(jobs)
    table = _held(tallies.tally(rows, by, jobs), held, by)
    ordered = table.sort(
        *("stands_out", "events", "incidents", "text"),
        descending=[True, True, True, False],
    )
    mine = pl.col("text").is_in([*only]) if only else pl.lit(True)
    shown = ordered.filter(mine).head(len(ordered) if most is None else most)
    classes = tallies.classes(rows, shown)
    return Counts(
        tool=TOOL,
        by=by,
        since=rfc3339(span.since),
        until=rfc3339(span.until),
        incidents=int(found.select(tallies.FAILED.sum()).item()),
        events=int(table["events"].sum()),
        names=table.height,
        compared=0 if held is None else held.compared,
        measure=None if held is None else held.measure,
        rows=tuple(_row(row, classes) for row in shown.iter_rows(named=True)),
    )


def _held(table: pl.DataFrame, held: Exposure | None, by: By) -> pl.DataFrame:
    """Add the hours of each, how surprising its events are, and who stands out."""
    if held is None:
        none = [pl.lit(None).alias(name) for name in ("hours", *STANDING)]
        return table.with_columns(*none, stands_out=pl.lit(False))
    from ncclforensics.history.exact import marked  # numpy: where anybody is tested

    whose = "hosts" if by == "gpu" else "text"
    table = table.with_columns(text_of=pl.col(whose).cast(pl.String)).join(
        held.each, left_on="text_of", right_on="text", how="left"
    )
    events, chances = table["events"], table["chance"].fill_null(0.0)
    # more GPUs may be named than a host has: by number, and by address
    whole = max(held.whole, float(chances.sum()))
    marks = marked(events.to_numpy(), chances.to_numpy(), whole, held.compared)
    return table.with_columns(
        pl.Series(name, getattr(marks, name)) for name in (*STANDING, "stands_out")
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


def _row(row: Mapping[str, Any], classes: Mapping[Any, dict[str, int]]) -> Count:
    name, hours = row["text"], row["hours"] or None
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
        standing=_standing(row),
    )


def _standing(row: Mapping[str, Any]) -> Standing | None:
    if row["tail"] is None or math.isnan(row["tail"]):
        return None
    expected, tail, corrected = (float(f"{row[name]:.3g}") for name in STANDING)
    return Standing(expected, tail, corrected, row["stands_out"])


def time(moment: Any) -> str | None:
    """Return a time of a row as the JSON has it; polars gives it in microseconds."""
    return None if moment is None else str(moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
