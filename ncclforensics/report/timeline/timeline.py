"""The timeline of a job: its rows, columns and marks, with lookups."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.folding import fold_ranks, natural, some
from ncclforensics.report.timeline import rows as folding
from ncclforensics.report.timeline.axis import EXIT, LOG

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames
    from ncclforensics.report.timeline.axis import Columns
    from ncclforensics.report.timeline.grid import Grid
    from ncclforensics.report.timeline.rows import Grouping


@dataclass(frozen=True, slots=True)
class Shown:
    """The selected part: a kind of groups, one group of it, grouping and folding.

    `by` is the kind whose groups are the sections when grouped by process group.
    """

    kind: str | None = None
    pg: str | None = None
    grouping: Grouping = "host"
    fold: bool = True
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows in order of rank: `row rank cells host device stand brief named suspected`.

    Where there are only logs, rows also have the columns of `outcomes`.
    `suspected` says why a rank that is not a culprit is suspected; otherwise it is "".
    `columns` and `grid` define the cells. `groups` has `rank gid kind pg pg_desc p2p`,
    `marks` the log lines that are marks, `exits` the failed processes, both with their
    `col`. `calls` are all calls, as a LazyFrame.
    """

    frames: Frames
    calls: pl.LazyFrame
    rows: pl.DataFrame
    columns: Columns
    groups: pl.DataFrame
    grid: Grid
    marks: pl.DataFrame
    exits: pl.DataFrame
    ranks: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Keep the ranks as a list, to look up rows."""
        object.__setattr__(self, "ranks", self.rows["rank"].to_list())

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.ranks or not self.columns.merged

    @property
    def is_logs_only(self) -> bool:
        """Whether the rows have the columns of `outcomes`."""
        return "ended" in self.rows.columns

    def row_of(self, rank: int) -> int | None:
        """Return the row of a rank, or None."""
        at = bisect_left(self.ranks, rank)
        return at if at < len(self.ranks) and self.ranks[at] == rank else None

    def cells(self, row: int) -> bytes:
        """Return the cells of a row, one byte per column."""
        return bytes(self.rows["cells"][row])

    def axis(self, kind: str | None) -> tuple[int, ...]:
        """Return the columns to show for a kind, or all, from left to right."""
        chosen = None if kind is None else self.columns.kind(kind)
        if chosen is None:
            return self.columns.merged
        first = self.columns.table.height
        return tuple(
            col
            for col in self.columns.merged
            if col >= first or chosen.first <= col < chosen.end
        )

    def lines(self, shown: Shown) -> pl.DataFrame:
        """Return the lines of the selected part (see `rows.lines`)."""
        known = ["row", "rank", "host", "cells", "named", "suspected"]
        known += ["ended", "is_behind"] if self.is_logs_only else []
        rows = self.rows.select(known)
        members = self.groups.filter(
            (pl.col("kind") == shown.kind) if shown.kind else ~pl.col("p2p")
        )
        if shown.pg is not None:
            ranks = members.filter(pl.col("pg") == shown.pg)["rank"]
            rows = rows.filter(pl.col("rank").is_in(ranks.implode()))
        section = "host"
        if shown.grouping == "process group":
            section = "pg"
            kind = shown.kind or shown.by or self.smallest_kind()
            of_kind = self.groups.filter(pl.col("kind") == (kind or ""))
            names = of_kind.select("rank", "pg").unique("rank", maintain_order=True)
            rows = rows.join(
                names, on="rank", how="left", maintain_order="left"
            ).with_columns(pl.col("pg").fill_null(""))
        return folding.lines(
            rows,
            shown.grouping,
            key=self._key(shown.kind),
            section=section,
            fold=shown.fold,
        )

    def families(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return each kind of groups with its groups: (name, folded ranks)."""
        groups = self.groups.group_by("kind", "pg").agg(pl.col("rank").unique())
        found: list[tuple[str, list[tuple[str, str]]]] = []
        for kind in (k.name for k in self.columns.kinds if k.is_call):
            own = groups.filter(pl.col("kind") == kind).select("pg", "rank").rows()
            own.sort(key=lambda row: natural(row[0]))
            named = [(pg, some(fold_ranks(ranks), 40)) for pg, ranks in own]
            found.append((kind, named))
        return found

    def smallest_kind(self) -> str | None:
        """Return the kind with the most groups, collectives before P2P, or None."""
        ranked = (
            self.groups.group_by("kind")
            .agg(pl.col("pg").n_unique().alias("groups"), pl.col("p2p").any())
            .sort("p2p", -pl.col("groups").cast(pl.Int64), "kind")
        )
        return None if ranked.is_empty() else str(ranked["kind"][0])

    def _key(self, kind: str | None) -> pl.Expr:
        """Return what a rank looks like: its calls of a kind, or all, and its exit.

        Log lines count only if there are no calls, because ranks that wait in one call
        print different lines. Culprits fold only with culprits, and suspects only with
        suspects.
        """
        columns = self.columns
        log, end = columns.kind(LOG), columns.kind(EXIT)
        chosen = None if kind is None else columns.kind(kind)
        if chosen is None:
            calls = columns.table.height
            last = calls or (log.end if log is not None else 0)
            first = 0
        else:
            first, last = chosen.first, chosen.end
        key = pl.col("cells").bin.slice(first, last - first)
        known: tuple[str | pl.Expr, ...] = ("named", pl.col("suspected") != "")
        if self.is_logs_only:
            known += ("ended", "is_behind")
        if end is None:
            return pl.struct(key.alias("calls"), *known)
        ends = pl.col("cells").bin.slice(end.first, end.end - end.first)
        return pl.struct(key.alias("calls"), ends.alias("ends"), *known)
