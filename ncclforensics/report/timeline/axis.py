"""The columns: one per call number of a kind of group, then log messages, then exits.

Columns of one kind are numbered consecutively. `merged` orders all of them as the job
made the calls, so that a wait chain across groups is visible at once. `log` columns
(messages that a healthy job does not print; all messages if there are no calls) and
`exit` columns are inserted between the calls by time.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.timeline import marks, naming

if TYPE_CHECKING:
    from ncclforensics.report.timeline.first_pass import Survey

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_CELLS = 1 << 28
LOG, EXIT = "log", "exit"


@dataclass(frozen=True, slots=True)
class Kind:
    """Columns `first` to `end` (exclusive): calls of one kind of groups, or marks."""

    name: str
    letter: str
    first: int
    end: int
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns: `numbers` (of calls) and `messages` (of log marks) by column.

    `table` has `kind n col` of calls, `place` each group's `gid kind`; `merged` has the
    columns in the order in which the job made the calls.
    """

    kinds: tuple[Kind, ...]
    table: pl.DataFrame
    merged: tuple[int, ...]
    numbers: tuple[int | None, ...]
    messages: tuple[str, ...]

    def kind_of(self, col: int) -> Kind:
        """Return the kind that a column belongs to."""
        return self.kinds[
            bisect_right(self.kinds, col, key=lambda kind: kind.first) - 1
        ]

    def kind(self, name: str) -> Kind | None:
        """Return a kind by its name, or None."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    def find(self, kind: str, n: int) -> int | None:
        """Return the column of a call, or None."""
        rows = self.table.filter((pl.col("kind") == kind) & (pl.col("n") == n))
        return None if rows.is_empty() else int(rows["col"][0])


def columns(
    found: Survey,
    told: pl.DataFrame,
    logs: pl.DataFrame,
    exits: pl.DataFrame,
    ranks: int,
) -> tuple[Columns, pl.DataFrame, pl.DataFrame]:
    """Lay out all columns; returns them, and `logs` and `exits` with their `col`.

    `told` has calls that are known only from logs (naming.KEY and `n`); `logs` and
    `exits` are those of `marks`. Beyond MOST_CELLS, the oldest columns are dropped.
    """
    kinds = found.groups.select("gid", "kind", *naming.KEY)
    seen = found.numbers.join(kinds, on="gid").select("kind", "n", "t", "record_id")
    extra = told.join(kinds, on=naming.KEY).select(
        "kind",
        "n",
        pl.lit(None, pl.Int64).alias("t"),
        pl.lit(None, pl.Int64).alias("record_id"),
    )
    both = pl.concat([seen, extra]).group_by("kind", "n").agg(pl.all().min())
    most = max(MOST_CELLS // max(ranks, 1), 100)
    timed = both["t"].null_count() == 0
    calls = _ordered(both, timed).tail(most)
    starts = calls.group_by("kind").agg(pl.col("order").min().alias("start"))
    table = (
        calls.join(starts, on="kind")
        .sort("start", "kind", "n")
        .with_row_index("col")
        .select("kind", "n", pl.col("col").cast(pl.Int64), "order")
    )
    names = table.group_by("kind", maintain_order=True).agg(
        pl.col("col").first().alias("first"), pl.len()
    )
    laid = [
        Kind(name, LETTERS[i % len(LETTERS)], first, first + size)
        for i, (name, first, size) in enumerate(names.iter_rows())
    ]
    since = calls["rising"] if timed else calls["rising"].clear()
    logs, messages = marks.placed(logs, since, table.height)
    end = table.height + messages.height
    if messages.height:
        letter = "!" if laid else "m"
        laid.append(Kind(LOG, letter, table.height, end, is_call=False))
    exits, ends = marks.placed(exits, since, end)
    if ends.height:
        laid.append(Kind(EXIT, "E", end, end + ends.height, is_call=False))
    made = table.sort("order").with_row_index("slot").select("slot", "col", at=1)
    between = pl.concat([messages, ends]).select("slot", "col", at=0)
    if since.is_empty():
        between = between.with_columns(slot=made.height)
    merged = pl.concat([made.cast(pl.Int64), between.cast(pl.Int64)])
    laid_out = Columns(
        tuple(laid),
        table.select("kind", "n", "col"),
        tuple(merged.sort("slot", "at", "col")["col"]),
        tuple(table["n"].to_list()),
        tuple(messages["name"].to_list()),
    )
    return laid_out, logs, exits


def _ordered(calls: pl.DataFrame, timed: bool) -> pl.DataFrame:
    """Add `order`: by time if all calls are `timed`, else by record, else by number.

    Within a kind, calls are ordered by number even if clocks disagree: `rising` is the
    running maximum of the time (or record, or number).
    """
    key = pl.col("t") if timed else pl.coalesce("record_id", "n")
    rising = key.cum_max().over("kind", order_by="n").alias("rising")
    return (
        calls.sort("kind", "n")
        .with_columns(rising)
        .sort("rising", "kind", "n")
        .with_row_index("order")
    )
