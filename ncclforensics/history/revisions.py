"""Which row is the last word on an incident, where it was kept more than once.

Rows with the same `id` or the same `evidence` tell of one incident, and the one that
was kept last counts. A row lists in `replaces` those of which it is the later word; one
that comes in late lists itself. So a reader leaves out what any row lists, and hours
count for rows that list none: each incident once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.history import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOWN = ("row", "id", "evidence", "kept", "ticket")
KEYS = ("id", "evidence")
Row = dict[str, Any]


def resolved(new: pl.DataFrame, packed: Sequence[pl.LazyFrame] = ()) -> pl.DataFrame:
    """Return the rows that are in no part, with `replaces` and the ticket filled in.

    `packed` are the parts. A ticket that only an earlier word tells is handed on.
    """
    known = columns.frame(()).select(KNOWN)
    if packed and new.height:
        known = _known(new.select(KNOWN), packed)
        new = new.join(known, on="row", how="anti", maintain_order="left")
    by: dict[tuple[str, int], list[Row]] = {}
    for row in known.sort("kept").iter_rows(named=True):
        _add(by, row)
    replaces, tickets = [], []
    for row in new.select(KNOWN).iter_rows(named=True):
        same = _same(by, row)
        later = any(r["kept"] > row["kept"] for r in same)
        told = [r["ticket"] for r in same if r["ticket"]]
        row["ticket"] = row["ticket"] or (told[-1] if told else None)
        replaces.append([row["row"]] if later else [r["row"] for r in same])
        tickets.append(row["ticket"])
        _add(by, row)
    return new.with_columns(
        pl.Series("replaces", replaces, columns.SCHEMA["replaces"]),
        pl.Series("ticket", tickets, pl.String),
    )


def _known(new: pl.DataFrame, packed: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Return packed rows of the same incidents, also by way of one another."""
    keys, size = new, -1
    while size != keys.height:
        size = keys.height
        either = pl.any_horizontal(
            pl.col(name).is_in(keys[name].unique().implode()) for name in KNOWN[:3]
        )
        whole = pl.concat([part.select(KNOWN) for part in packed])
        found = whole.filter(either).collect()
        keys = pl.concat([new, found]).unique("row")
    return found


def _same(by: dict[tuple[str, int], list[Row]], row: Row) -> list[Row]:
    """Return the rows of the same incident so far, the oldest first."""
    found: dict[int, Row] = {}
    left = [row]
    while left:
        now = left.pop()
        for key in KEYS:
            for other in by.get((key, now[key]), ()):
                if other["row"] not in found:
                    found[other["row"]] = other
                    left.append(other)
    return sorted(found.values(), key=lambda r: (r["kept"], r["row"]))


def _add(by: dict[tuple[str, int], list[Row]], row: Row) -> None:
    for key in KEYS:
        by.setdefault((key, row[key]), []).append(row)


def live(rows: pl.LazyFrame, replaced: pl.Series) -> pl.LazyFrame:
    """Return the rows that are the last word; `rows` have to hold `row`."""
    if replaced.is_empty():
        return rows
    return rows.filter(~pl.col("row").is_in(replaced.implode()))


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row of each incident that no row before tells of: its hours count."""
    return rows.filter(pl.col("replaces").list.len() == 0)
