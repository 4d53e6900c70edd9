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


def resolved(new: pl.DataFrame, packed: Sequence[pl.LazyFrame] = ()) -> pl.DataFrame:
    """Return the rows that are in no part, with `replaces` and the ticket filled in.

    `packed` are the parts. A ticket that only an earlier word tells is handed on.
    """
    known = columns.frame(()).select(KNOWN)
    if packed and new.height:
        either = pl.any_horizontal(
            pl.col(name).is_in(new[name].implode())
            for name in ("row", "id", "evidence")
        )
        scans = [part.select(KNOWN) for part in packed]
        known = pl.concat(scans).filter(either).collect()
        new = new.join(known, on="row", how="anti", maintain_order="left")
    by: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in known.sort("kept").iter_rows(named=True):
        _add(by, row)
    replaces, tickets = [], []
    for row in new.select(KNOWN).iter_rows(named=True):
        same = {r["row"]: r for key in _keys(row) for r in by.get(key, ())}
        later = any(r["kept"] > row["kept"] for r in same.values())
        told = [r["ticket"] for r in same.values() if r["ticket"]]
        row["ticket"] = row["ticket"] or (told[-1] if told else None)
        replaces.append([row["row"]] if later else [*same])
        tickets.append(row["ticket"])
        _add(by, row)
    return new.with_columns(
        pl.Series("replaces", replaces, columns.SCHEMA["replaces"]),
        pl.Series("ticket", tickets, pl.String),
    )


def _keys(row: dict[str, Any]) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("id", row["id"]), ("evidence", row["evidence"])


def _add(by: dict[tuple[str, int], list[dict[str, Any]]], row: dict[str, Any]) -> None:
    for key in _keys(row):
        by.setdefault(key, []).append(row)


def live(rows: pl.LazyFrame, replaced: pl.Series) -> pl.LazyFrame:
    """Return the rows that are the last word; `rows` have to hold `row`."""
    if replaced.is_empty():
        return rows
    return rows.filter(~pl.col("row").is_in(replaced.implode()))


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row of each incident that no row before tells of: its hours count."""
    return rows.filter(pl.col("replaces").list.len() == 0)
