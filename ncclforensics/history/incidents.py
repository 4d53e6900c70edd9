"""Lists incidents: the newest, and those of one host with what came after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.history.counts import TOOL, counts, naming, time, within
from ncclforensics.history.results import Listing, Node, Seen
from ncclforensics.model.words import lasted
from ncclforensics.report.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.history.store import Store
    from ncclforensics.model.span import Span

SHOWN = (
    *("t", "outcome", "class", "headline", "hosts", "devices", "ranks", "job", "user"),
    *("image", "same", "call_site", "gpu_hours", "ticket", "path", "restart", "row"),
)
FAILED = pl.col("outcome") != "no-failure"


def newest(store: Store, span: Span, most: int) -> Listing:
    """List the newest incidents: all that failed, also where the cause is not known."""
    times = store.rows("t", "row", "outcome", where=within(span))
    failed = times.filter(FAILED)
    top = failed.top_k(most, by="t")
    rows = _whole(store, top)
    return Listing(
        tool=TOOL,
        since=rfc3339(span.since),
        until=rfc3339(span.until),
        analyses=times.height,
        incidents=failed.height,
        shown=tuple(_seen(row) for row in rows),
    )


def of_node(
    store: Store,
    names: Sequence[str],
    span: Span,
    most: int,
    given: Mapping[str, float] | None = None,
) -> Node:
    """List what names a host, which the store may know under each of `names`."""
    times = store.rows("t", "row", where=within(span) & FAILED & naming(names))
    rows = _whole(store, times.top_k(most, by="t"))
    after = _restarts(store, rows, names)
    table = counts(store, "host", span, given, most=1, only=names)
    return Node(
        tool=TOOL,
        host=names[0],
        since=table.since,
        until=table.until,
        count=table.rows[0] if table.rows else None,
        compared=table.compared,
        measure=table.measure,
        shown=tuple(_seen(row, after.get(row["row"])) for row in rows),
    )


def _whole(store: Store, chosen: pl.DataFrame) -> list[dict[str, Any]]:
    """Return all columns of a few rows, the newest first."""
    if chosen.is_empty():
        return []
    mine = pl.col("row").is_in(chosen["row"].implode())
    if (first := chosen["t"].min()) is not None and not chosen["t"].has_nulls():
        mine &= pl.col("t") >= first  # row groups of other times are not read
    found = store.rows(*SHOWN, where=mine)
    return found.sort("t", "row", descending=True, nulls_last=True).to_dicts()


def _restarts(
    store: Store, rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[int, str]:
    """Return by row how the job went on, as far as the store was told.

    What was kept next of the same job tells when it ran again, and on which hosts.
    """
    jobs = [row["job"] for row in rows if row["job"]]
    if not jobs:
        return {}
    kept = store.rows(
        *("job", "t", "began", "nodes", "outcome"), where=pl.col("job").is_in(jobs)
    )
    told = {}
    for row in rows:
        if row["t"] is None:
            continue
        same = (pl.col("job") == row["job"]) & (pl.col("t") > row["t"])
        for after in kept.filter(same).sort("t").head(1).iter_rows(named=True):
            told[row["row"]] = _went_on(row, after, names)
    return told


def _went_on(
    row: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]
) -> str:
    began = after["began"] if after["began"] and after["began"] > row["t"] else None
    when = f" {lasted((began - row['t']).total_seconds())} later" if began else ""
    on = not {*names}.isdisjoint(after["nodes"])
    where = "on it" if on else "without it" if after["nodes"] else "elsewhere or on it"
    ran = {"failure": "failed again", "no-failure": "ran well"}
    return f"{where}{when}, {ran.get(after['outcome'], 'stopped again')}"


def _seen(row: Mapping[str, Any], restarted: str | None = None) -> Seen:
    return Seen(
        t=time(row["t"]),
        outcome=row["outcome"],
        slug=row["class"],
        headline=row["headline"],
        hosts=tuple(row["hosts"]),
        devices=tuple(row["devices"]),
        ranks=row["ranks"],
        job=row["job"],
        user=row["user"],
        image=row["image"],
        failure=f"{row['same']:016x}",
        call_site=row["call_site"],
        gpu_hours=row["gpu_hours"],
        ticket=row["ticket"],
        path=row["path"],
        advice=row["restart"],
        restarted=restarted,
    )
