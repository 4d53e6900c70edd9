"""Searches for the ranks and columns that a word matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline import naming

if TYPE_CHECKING:
    from ncclforensics.report.timeline.timeline import Timeline

MOST = 1000


def search(timeline: Timeline, text: str) -> list[tuple[int, int | None]]:
    """Return (row, column) of places that contain `text`, ignoring case, top to bottom.

    Searches hosts, the log lines that are marks, the reasons of exits, and the
    operations and stacks of calls. At most the first MOST places are returned.
    """
    word = text.lower()

    def holds(column: str) -> pl.Expr:
        lower = pl.col(column).str.to_lowercase()
        return lower.str.contains(word, literal=True).fill_null(False)

    columns = timeline.columns
    hits: set[tuple[int, int | None]] = set()
    for rank in timeline.rows.filter(holds("host"))["rank"].head(MOST):
        hits.add((rank, None))
    marked = [
        timeline.marks.filter(holds("text") | holds("name")),
        timeline.exits.filter(holds("reason")),
    ]
    for rows in marked:
        # one line may be two marks: of its traceback, and of what was raised
        once = rows.drop_nulls("col").unique(["rank", "source", "line"], keep="first")
        found = once.select("rank", "col").drop_nulls().unique().sort("rank", "col")
        hits.update(found.head(MOST).iter_rows())
    stacks = timeline.frames["stacks"].filter(holds("function") | holds("file"))
    calls = (
        timeline.calls.filter(
            holds("op") | pl.col("stack").is_in(stacks["stack"].implode())
        )
        .select("rank", "record_id", *naming.keyed())
        # only the newest per rank, because operations repeat
        .group_by("rank")
        .agg(pl.all().sort_by("record_id").last())
        .drop("record_id")
        .head(MOST)
        .collect()
    )
    placed = calls.join(timeline.groups, on=["rank", *naming.KEY]).join(
        columns.table, on=["kind", "n"]
    )
    hits.update(placed.select("rank", "col").iter_rows())
    placed_rows = ((timeline.row_of(rank), col) for rank, col in hits)
    seen = [(row, col) for row, col in placed_rows if row is not None]
    return sorted(seen, key=lambda hit: (hit[0], -1 if hit[1] is None else hit[1]))[
        :MOST
    ]
