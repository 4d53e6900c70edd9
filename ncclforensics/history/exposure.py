"""What counts are held against: how often each host, GPU, user or image had a chance.

Node hours are held against only where the site's accounting gives them. The hours of
kept analyses would mislead: they are mostly those of jobs that failed, so a host with
two short jobs would have two faults in an hour. Without accounting, each fault of a
node counts as a fault among the hosts of its job, where any may be named: 1/16 for each
of 16. Users and images are held against their jobs, as far as these were kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.history import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.history.results import Measure
    from ncclforensics.history.store import Store
    from ncclforensics.model.span import Span


@dataclass(frozen=True, slots=True)
class Exposure:
    """The `text chance hours` of each host, user or image; hours are null if unknown.

    `whole` is the chance of all that are `compared`, also of those without an incident.
    """

    measure: Measure
    each: pl.DataFrame
    whole: float
    compared: int


def of_hosts(
    store: Store, span: Span, given: Mapping[str, float] | None, *, gpus: bool
) -> Exposure | None:
    """Return the exposure of hosts; None if no job tells its hosts.

    Of GPUs the chance and the hours of one are its host's, as all of them take part in
    a job that the host is in; `whole` and `compared` are then of all GPUs.
    """
    of = [pl.sum("share"), pl.sum("hours"), pl.max("gpus")]
    table = _in_weeks(store.hours(), span).group_by("host").agg(*of)
    if table.is_empty() and not given:
        return None
    most = max([1, *table["gpus"].drop_nulls()])
    table = table.rename({"share": "chance"}).with_columns(
        text=pl.col("host").cast(pl.String)
    )
    if given:
        told = pl.DataFrame([*given.items()], ["text", "chance"], orient="row")
        told = told.with_columns(hours="chance")
        table = told.join(table.select("text", "gpus"), on="text", how="left")
    many = pl.col("gpus").fill_null(most) if gpus else pl.lit(1)
    whole, compared = table.select(
        (pl.col("chance") * many).sum(), (many * (pl.col("chance") > 0)).sum()
    ).row(0)
    measure: Measure = "node hours" if given else "hosts of the jobs"
    return Exposure(measure, table.select("text", "chance", "hours"), whole, compared)


def of_jobs(jobs: pl.DataFrame) -> Exposure:
    """Return the exposure of users or images from their `jobs` and `hours`."""
    each = jobs.select("text", pl.col("jobs").alias("chance"), "hours")
    return Exposure("jobs", each, float(each["chance"].sum()), each.height)


def _in_weeks(hours: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the weeks of a span, its first and last week whole."""
    week = pl.col("week")
    for end, keep in ((span.since, week.__ge__), (span.until, week.__le__)):
        if end is not None:
            day = pl.lit(end).cast(columns.TIME).dt.date()
            hours = hours.filter(keep(day.dt.truncate("1w")))
    return hours
