"""What counts are held against: how often each host, GPU, user or image had a chance.

Node hours are held against only where the site's accounting gives them. The hours of
kept analyses would mislead: they are mostly those of jobs that failed, so a host with
two short jobs would have two faults in an hour. Without accounting, each fault of a
node counts as a fault among the hosts of its job, where any may be named: 1/16 for each
of 16. Users and images are held against their jobs, as far as these were kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.history import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ncclforensics.history.results import Measure
    from ncclforensics.history.store import Store
    from ncclforensics.model.span import Span

REST = ""  # stands for the GPUs that no incident names
ON = " GPU "  # between a host and the number or address of its GPU


@dataclass(frozen=True, slots=True)
class Exposure:
    """The chance of each host or name, and its node hours, where they are known.

    `gpus` is how many GPUs each host has, if it is GPUs that are counted.
    """

    measure: Measure
    chance: Mapping[str, float]
    hours: Mapping[str, float]
    gpus: Mapping[str, int] | None = None

    @property
    def compared(self) -> int:
        """How many are compared, also those without an incident."""
        if self.gpus is None:
            return sum(chance > 0 for chance in self.chance.values())
        return sum(self.gpus[host] for host, c in self.chance.items() if c > 0)

    def chances(self, names: Iterable[str]) -> Mapping[str, float]:
        """Return the chance by name; of GPUs, of these and of all others together."""
        if self.gpus is None:
            return self.chance
        mine = {n: self.chance.get(host_of(n), 0.0) for n in names}
        total = math.fsum(c * self.gpus[host] for host, c in self.chance.items())
        return {**mine, REST: max(0.0, total - math.fsum(mine.values()))}

    def hours_of(self, name: str) -> float | None:
        """Return the hours of a name, None if they are not known."""
        return self.hours.get(name if self.gpus is None else host_of(name)) or None


def host_of(gpu: str) -> str:
    """Return the host of a GPU; all its GPUs take part in a job that it is in."""
    return gpu.rpartition(ON)[0]


def of_hosts(
    store: Store, span: Span, given: Mapping[str, float] | None, *, gpus: bool
) -> Exposure | None:
    """Return the exposure of hosts or of their GPUs; None if no job tells its hosts."""
    table = _in_weeks(store.hours(), span)
    of = [pl.sum("share"), pl.sum("hours"), pl.max("gpus")]
    table = table.group_by("host").agg(*of)
    if table.is_empty() and not given:
        return None
    most = max([1, *table["gpus"].drop_nulls()])
    on = {h: n or most for h, n in table.select("host", "gpus").iter_rows()}
    if given:
        each = {host: on.get(host, most) for host in given} if gpus else None
        return Exposure("node hours", given, given, each)
    chance = dict(table.select("host", "share").iter_rows())
    hours = dict(table.select("host", "hours").iter_rows())
    return Exposure("hosts of the jobs", chance, hours, on if gpus else None)


def of_jobs(jobs: pl.DataFrame) -> Exposure:
    """Return the exposure of users or images from their `jobs` and `hours`."""
    chance = dict(jobs.select("text", "jobs").iter_rows())
    return Exposure("jobs", chance, dict(jobs.select("text", "hours").iter_rows()))


def _in_weeks(hours: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the weeks of a span, its first and last week whole."""
    week = pl.col("week")
    for end, keep in ((span.since, week.__ge__), (span.until, week.__le__)):
        if end is not None:
            day = pl.lit(end).cast(columns.TIME).dt.date()
            hours = hours.filter(keep(day.dt.truncate("1w")))
    return hours
