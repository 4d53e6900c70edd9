"""How long each host, GPU, user or image was exposed: what counts are held against.

Node hours come from the site's accounting, where it is given. Else they are the hours
that the evidence of kept analyses covers, times their hosts; where most evidence has no
times, the number of analyses that a host took part in stands for its hours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.history import columns
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ncclforensics.correlate.runs.time_window import Span
    from ncclforensics.history.results import By, Measure
    from ncclforensics.history.store import Store

# of all that have hours, so many must have them for hours to be used
COVERED = 0.9
REST = ""  # stands for the GPUs that no incident names


@dataclass(frozen=True, slots=True)
class Exposure:
    """What each name was exposed to, in hours or in analyses; `gpus` on each host."""

    measure: Measure
    by_name: Mapping[str, float]
    gpus: Mapping[str, int] | None = None

    @property
    def compared(self) -> int:
        """How many are compared, also those without an incident."""
        names = self.by_name if self.gpus is None else self.gpus
        return len(names) if self.gpus is None else sum(self.gpus[n] for n in names)

    def of(self, names: Iterable[str]) -> Mapping[str, float]:
        """Return the exposure by name; of GPUs, of these and of all others together."""
        if self.gpus is None:
            return self.by_name
        known = {n: e for n in names if (e := self._gpu(n))}
        total = math.fsum(e * self.gpus[h] for h, e in self.by_name.items())
        return {**known, REST: max(0.0, total - math.fsum(known.values()))}

    def hours(self, name: str) -> float | None:
        """Return the hours of a name, None if they are not known."""
        if self.measure == "analyses":
            return None
        return self.by_name.get(name) if self.gpus is None else self._gpu(name)

    def _gpu(self, name: str) -> float | None:
        """Return the exposure of one GPU: in a job of its host, all GPUs take part."""
        return self.by_name.get(name.partition(" GPU ")[0])


def exposure(
    store: Store, by: By, span: Span, given: Mapping[str, float] | None
) -> Exposure | None:
    """Return what the counts are held against, None where nothing is to be tested."""
    if by in ("class", "failure"):
        return None
    if by in ("user", "image"):
        return _of_jobs(store, by, span)
    table = (
        _in_days(store.hours(), span)
        .group_by("host")
        .agg(pl.sum("analyses"), pl.sum("hours"), pl.max("gpus"))
    )
    gpus = None
    if by == "gpu":
        most = max([1, *table["gpus"].drop_nulls()])
        gpus = dict(table.select("host", pl.col("gpus").fill_null(most)).iter_rows())
    if given:
        gpus = gpus and {h: gpus.get(h) or max(gpus.values()) for h in given}
        return Exposure("given hours", given, gpus)
    if table.is_empty():
        return None
    is_covered = (table["hours"] > 0).sum() >= COVERED * table.height
    column: Measure = "hours" if is_covered else "analyses"
    by_host = table.filter(pl.col(column) > 0).select(
        "host", pl.col(column).cast(float)
    )
    known = dict(by_host.iter_rows())
    return Exposure(column, known, gpus and {h: gpus[h] for h in known})


def _of_jobs(store: Store, by: By, span: Span) -> Exposure | None:
    """Return the node hours of the jobs of each user or image, where they have any."""
    from ncclforensics.history.counts import within

    rows = store.rows(by, "nodes", "began", "ended", where=within(span))
    known = rows.drop_nulls(by).select(
        pl.col(by).alias("name"),
        (columns.SPAN.clip(0) * pl.col("nodes").list.len()).fill_null(0).alias("hours"),
    )
    table = known.group_by("name").agg(pl.sum("hours"))
    if table.is_empty() or (table["hours"] > 0).sum() < COVERED * table.height:
        return None
    return Exposure("hours", dict(table.filter(pl.col("hours") > 0).iter_rows()))


def _in_days(hours: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the days of a span, its first and last day whole."""
    day = pl.col("day")
    for end, keep in ((span.since, day.__ge__), (span.until, day.__le__)):
        if end is not None:
            hours = hours.filter(keep(pl.lit(end).cast(columns.TIME).dt.date()))
    return hours


def given_hours(path: Path) -> dict[str, float]:
    """Return node hours by host from a CSV file: a host and its hours a line.

    A first line with the names of the columns may be there, and a host several times.
    Raises UsageError if it cannot be read so.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as caught:
        raise UsageError(f"{path}: {reason(caught)}") from caught
    found: dict[str, float] = {}
    for number, line in enumerate(lines):
        host, _, hours = (part.strip() for part in line.partition(","))
        try:
            told = float(hours)
        except ValueError:
            told = math.nan
        if math.isfinite(told) and told >= 0 and host:
            found[host] = found.get(host, 0.0) + told
        elif line.strip() and number:
            raise UsageError(f"{path}:{number + 1}: no host and hours: {line[:60]!r}")
    if not found:
        raise UsageError(f"{path} has no hours")
    return found
