"""The columns: one per call number of a kind of group, then log messages, then exits.

Columns of one kind lie side by side in the order of their numbers; `merged` puts all of
them in the order in which the job made the calls, so that a chain across groups is one
picture. What is not a call comes last: `log` has a column per message that a healthy
job does not print (per message at all, where there are no calls), `exit` has one.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.job import FAILING
from ncclforensics.tui.model import naming

if TYPE_CHECKING:
    from ncclforensics.tables import Frames
    from ncclforensics.tui.model.survey import Survey

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_CELLS = 1 << 28
MOST_MESSAGES = 60
LOG, EXIT = "log", "exit"


@dataclass(frozen=True, slots=True)
class Kind:
    """Columns `first` to before `end`: calls of groups of one kind, or marks."""

    name: str
    letter: str
    first: int
    end: int
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns: `numbers` (of calls) and `messages` (of log marks) by column.

    `table` has `kind n col` of calls, `place` each group's `gid kind`, `merged` the
    columns in the order of the job.
    """

    kinds: tuple[Kind, ...]
    table: pl.DataFrame
    merged: tuple[int, ...]
    numbers: tuple[int, ...]
    messages: tuple[str, ...]

    def kind_of(self, col: int) -> Kind:
        """Return the kind that a column belongs to."""
        return self.kinds[
            bisect_right(self.kinds, col, key=lambda kind: kind.first) - 1
        ]

    def kind(self, name: str) -> Kind | None:
        """Return a kind by its name."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    def find(self, kind: str, n: int) -> int | None:
        """Return the column of a call, or None."""
        rows = self.table.filter((pl.col("kind") == kind) & (pl.col("n") == n))
        return None if rows.is_empty() else int(rows["col"][0])


def logged(frames: Frames, *, all_messages: bool) -> pl.DataFrame:
    """Return log lines that are marks: `rank message failing t source line text`."""
    events = frames["events"].drop_nulls("rank")
    failing = pl.col("role").is_in(FAILING).fill_null(False)
    kept = events if all_messages else events.filter(failing)
    return kept.select(
        "rank", "message", failing.alias("failing"), "t", "source", "line", "text"
    )


def columns(
    found: Survey, told: pl.DataFrame, marks: pl.DataFrame, exits: int, ranks: int
) -> Columns:
    """Lay out all columns.

    `told` has calls that only logs tell of (naming.KEY and `n`), `marks` is `logged`,
    `exits` counts processes that ended badly. Columns beyond MOST_CELLS go, oldest
    first.
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
    calls = _ordered(both).tail(most)
    starts = calls.group_by("kind").agg(pl.col("order").min().alias("start"))
    table = (
        calls.join(starts, on="kind")
        .sort("start", "kind", "n")
        .with_row_index("col")
        .select("kind", "n", "col", "order")
    )
    names = table.group_by("kind", maintain_order=True).agg(
        pl.col("col").first().alias("first"), pl.len()
    )
    laid = [
        Kind(name, LETTERS[i % len(LETTERS)], first, first + size)
        for i, (name, first, size) in enumerate(names.iter_rows())
    ]
    end = table.height
    messages = _messages(marks)
    if messages:
        laid.append(
            Kind(LOG, "!" if laid else "m", end, end + len(messages), is_call=False)
        )
        end += len(messages)
    if exits:
        laid.append(Kind(EXIT, "E", end, end + 1, is_call=False))
        end += 1
    merged = table.sort("order")["col"].to_list()
    return Columns(
        tuple(laid),
        table.select("kind", "n", "col"),
        (*merged, *range(table.height, end)),
        tuple(table["n"].to_list()),
        tuple(messages),
    )


def _ordered(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `order`: by time where all is timed, else by record, else by number.

    Within a kind the order is that of the numbers, whatever the clocks say.
    """
    timed = calls["t"].null_count() == 0
    key = pl.col("t") if timed else pl.coalesce("record_id", "n")
    rising = key.cum_max().over("kind", order_by="n").alias("rising")
    return (
        calls.sort("kind", "n")
        .with_columns(rising)
        .sort("rising", "kind", "n")
        .with_row_index("order")
    )


def _messages(marks: pl.DataFrame) -> list[str]:
    """Return the messages that get a column, in the order in which ranks print them."""
    ordered = (
        marks.group_by("message")
        .agg(pl.col("line").median().alias("place"), pl.len())
        .top_k(MOST_MESSAGES, by="len")
        .sort("place", "message")
    )
    return [str(message) for message in ordered["message"]]
