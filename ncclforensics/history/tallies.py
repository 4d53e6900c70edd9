"""Tallies incidents by a name: how many, how many events, when, and of which classes.

A million names as text are slow to compare, so each has a number here, and only what is
counted gets its text back. The same failure again within a day is one event: jobs
restart into the same fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.history import columns, exposure
from ncclforensics.history.exposure import ON
from ncclforensics.history.limits import ONE_EVENT_S

if TYPE_CHECKING:
    from ncclforensics.history.results import By

FAILED = pl.col("outcome") == "failure"
# a time limit or a preemption is no failure of a job
A_FAILURE = FAILED & (pl.col("domain") != "scheduler")
OF_JOBS = ("user", "image")  # are held against all their jobs, also good ones
# the columns that a tally reads beside the time, the class and the outcome
READ: dict[By, tuple[str, ...]] = {
    "host": ("hosts", "domain", "same"),
    "gpu": ("hosts", "devices", "domain", "same"),
    "class": (),
    "user": ("user", "job", "node_hours", "domain"),
    "image": ("image", "job", "node_hours", "domain"),
    "failure": ("same", "headline"),
}


@dataclass(frozen=True, slots=True)
class Named:
    """Rows with a `name`, a number, for each name that an incident counts under.

    `failed` are those of failures, `rows` all, where these are counted as well.
    `texts` are the names of the numbers, None where the names are numbers. A GPU's is
    that of its host times all `devices`, and that of the device.
    """

    failed: pl.DataFrame
    rows: pl.DataFrame
    texts: pl.Series | None = None
    devices: pl.Series | None = None

    def text(self, name: pl.Expr) -> pl.Expr:
        """Return the names as they are told."""
        if self.texts is None:
            return name
        texts = pl.lit(self.texts)
        if self.devices is None:
            return texts.gather(name)
        many = max(len(self.devices), 1)
        device = pl.lit(self.devices).gather(name % many)
        return pl.format("{}" + ON + "{}", texts.gather(name // many), device)


def named(rows: pl.DataFrame, by: By) -> Named:
    """Return a row for each name that an incident is counted under."""
    devices: pl.Series | None = None
    match by:
        case "host":
            rows = _exploded(rows, "hosts")
            number, texts = _numbered(rows["hosts"])
        case "gpu":
            # of several hosts nothing says whose the GPUs are
            alone = rows.filter(pl.col("hosts").list.len() == 1)
            rows = _exploded(_exploded(alone, "hosts"), "devices")
            host, texts = _numbered(rows["hosts"])
            device, devices = _numbered(rows["devices"])
            number = host * max(len(devices), 1) + device
        case "failure":
            rows = rows.rename({"same": "name"}).drop_nulls("name")
            return Named(rows, rows)
        case _:
            rows = rows.drop_nulls(by)
            number, texts = _numbered(rows[by])
    rows = rows.drop("hosts", "devices", strict=False)
    if "job" in rows.columns:
        job = pl.col("job")
        rows = rows.with_columns(
            pl.when(job.is_not_null()).then(job.hash()).alias("job")
        )
    rows = rows.with_columns(number.alias("name"))
    failed = rows if by not in OF_JOBS else rows.filter(FAILED)
    return Named(failed, rows, texts, devices)


def _exploded(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return a row for each value of a list; most lists have one, which is cheaper."""
    many = pl.col(name).list.len()
    one = rows.filter(many == 1).with_columns(pl.col(name).list.first())
    if one.height < rows.height:
        one = pl.concat([one, rows.filter(many > 1).explode(name)])
    return one.drop_nulls(name)


def _numbered(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a number for each text, null for null, and the texts by number."""
    known = texts.drop_nulls().unique()
    return texts.cast(pl.Enum(known)).to_physical().cast(pl.Int64), known


def tally(found: Named, by: By) -> pl.DataFrame:
    """Return for each name its incidents and events, the first and the last time."""
    rows = found.failed
    told = [pl.first(c) for c in ("headline",) if c in rows.columns]
    more = [exposure.jobs(A_FAILURE).alias("events")] if "job" in rows.columns else []
    table = rows.group_by("name").agg(
        *(pl.len().alias("incidents"), pl.min("t").alias("first")),
        *(pl.max("t").alias("last"), *told, *more),
    )
    if by in ("host", "gpu"):
        table = table.join(_events(rows), on="name", how="left").with_columns(
            pl.col("events").fill_null(0)
        )
    elif not more:
        table = table.with_columns(pl.col("incidents").alias("events"))
    return table.with_columns(found.text(pl.col("name")).alias("text"))


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


def classes(found: Named, shown: pl.DataFrame) -> dict[Any, dict[str, int]]:
    """Return by the text of names how many incidents of which class, most first."""
    mine = found.failed.join(shown.select("name", "text"), on="name")
    told: dict[Any, dict[str, int]] = {}
    table = (
        mine.group_by("text", "class")
        .len()
        .sort("len", "class", descending=[True, False])
    )
    for name, slug, number in table.iter_rows():
        told.setdefault(name, {})[slug] = number
    return told
