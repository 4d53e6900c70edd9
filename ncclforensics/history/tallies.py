"""Tallies incidents by a name: how many, how many events, when, and of which classes.

Names are compared by their numbers, and only what is counted gets its text back. The
same failure again within a day is one event: jobs restart into the same fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.history import columns
from ncclforensics.history.limits import ONE_EVENT_S

if TYPE_CHECKING:
    from ncclforensics.history.results import By

ON = " GPU "  # between a host and the number or address of its GPU
FAILED = pl.col("outcome") == "failure"
# a time limit or a preemption is no failure of a job
A_FAILURE = FAILED & (pl.col("domain") != "scheduler")
OF_JOBS = ("user", "image")  # are held against all their jobs, also good ones
# what an incident is counted under; a GPU is known by its host and its device
NAMED: dict[By, tuple[str, ...]] = {
    "host": ("hosts",),
    "gpu": ("hosts", "devices"),
    "class": ("class",),
    "user": ("user",),
    "image": ("image",),
    "failure": ("same",),
}
# the columns that a tally reads beside the time, the class and the outcome
READ: dict[By, tuple[str, ...]] = {
    "host": ("hosts", "domain", "same"),
    "gpu": ("hosts", "devices", "domain", "same"),
    "class": (),
    "user": ("row", "user", "job", "node_hours", "domain"),
    "image": ("row", "image", "job", "node_hours", "domain"),
    "failure": ("same", "headline"),
}


def named(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return a row for each name that an incident is counted under.

    `name` is the number of the name; the columns of NAMED have one value in each row.
    """
    if by == "gpu":  # of several hosts nothing says whose the GPUs are
        rows = rows.filter(pl.col("hosts").list.len() == 1)
    for column in NAMED[by]:
        rows = _each(rows, column)
    numbers = [
        pl.col(c) if c == "same" else pl.col(c).to_physical().cast(columns.ID)
        for c in NAMED[by]
    ]
    name = numbers[0] if len(numbers) == 1 else numbers[0] * 2**32 + numbers[1]
    return rows.with_columns(name.alias("name"))


def _each(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return a row for each value of a column; most lists have one: that is cheaper."""
    if isinstance(rows.schema[column], pl.List):
        many = pl.col(column).list.len()
        several = rows.filter(many > 1).explode(column)
        first = pl.col(column).list.first()
        alone = rows if several.is_empty() else rows.filter(many == 1)
        rows = pl.concat([alone.with_columns(first), several])
    return rows.drop_nulls(column)


def tally(
    rows: pl.DataFrame, by: By, chances: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return for each name its incidents and events, the first and the last time.

    `rows` are those of `named`. A user or an image has a job for an event: `chances`
    are those of `jobs`.
    """
    failed = rows if chances is None else rows.filter(FAILED)
    told = [c for c in (*NAMED[by], "headline") if c in rows.columns]
    table = failed.group_by("name").agg(
        *(pl.len().alias("incidents"), pl.min("t").alias("first")),
        *(pl.max("t").alias("last"), *map(pl.first, told)),
    )
    events = _events(rows) if by in ("host", "gpu") else chances
    if events is None:
        table = table.with_columns(pl.col("incidents").alias("events"))
    else:
        table = table.join(events.select("name", "events"), on="name", how="left")
    return table.with_columns(pl.col("events").fill_null(0), _text(by))


def _text(by: By) -> pl.Expr:
    """Return the text of a name, of the columns of NAMED; of a failure its number."""
    if by == "gpu":
        told = pl.format("{}" + ON + "{}", "hosts", "devices")
    else:
        told = pl.col(NAMED[by][0])
        told = told if by == "failure" else told.cast(pl.String)
    return told.alias("text")


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


def jobs(rows: pl.DataFrame, by: By) -> pl.DataFrame:
    """Return for each name, and its `text`, its jobs, `events` that failed, and hours.

    Attempts of one job are one chance; what has no job is a job of its own.
    """
    job = pl.when(pl.col("job").is_null()).then("row").otherwise(pl.col("job").hash())
    failed = A_FAILURE.fill_null(False).alias("failed")
    told = rows.select("name", "node_hours", *NAMED[by], job.alias("job"), failed)
    table = told.group_by("name").agg(
        *map(pl.first, NAMED[by]),
        pl.col("job").n_unique().cast(pl.Float64).alias("jobs"),
        pl.col("job").filter("failed").n_unique().alias("events"),
        pl.sum("node_hours").alias("hours"),
    )
    return table.with_columns(_text(by))


def classes(rows: pl.DataFrame, shown: pl.DataFrame) -> dict[Any, dict[str, int]]:
    """Return by the text of names how many incidents of which class, most first."""
    is_shown = pl.col("name").is_in(shown["name"].implode())
    each = rows.filter(FAILED & is_shown).select("name", "class")
    table = (
        each.group_by(pl.all())
        .len()
        .with_columns(pl.col("class").cast(pl.String))
        .join(shown.select("name", "text"), on="name")
        .sort("len", "class", descending=[True, False])
    )
    told: dict[Any, dict[str, int]] = {}
    for name, slug, number in table.select("text", "class", "len").iter_rows():
        told.setdefault(name, {})[slug] = number
    return told
