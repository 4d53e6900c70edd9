"""Maps ranks to lines: their order, and which ranks fold into one line.

Neighbouring ranks that look alike fold. A host or group whose ranks all look alike
folds with the next one like it. One with a deviating rank keeps lines of its own, so
that this rank is shown among its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from ncclforensics.model.folding import natural

if TYPE_CHECKING:
    from collections.abc import Sequence

Grouping = Literal["host", "process group", "position"]
GROUPINGS: tuple[Grouping, ...] = ("host", "process group", "position")


def lines(
    rows: pl.DataFrame,
    grouping: Grouping,
    *,
    key: pl.Expr,
    section: str = "host",
    fold: bool = True,
) -> pl.DataFrame:
    """Return the lines: `sections row ranks`, from top to bottom.

    `rows` has `row rank` and the column named `section` (host or group); ranks with
    equal `key` look alike. `row` is that of the first rank, `ranks` are all ranks of a
    line, `sections` the hosts or groups that it spans.
    """
    keyed = rows.select(
        "row", "rank", pl.col(section).alias("section"), key.alias("key")
    )
    if grouping == "position":
        return _by_position(keyed)
    order = _natural(keyed["section"])
    whole = pl.col("key").n_unique().over("section") == 1
    placed = (
        keyed.join(order, on="section")
        .sort("place", "rank")
        .with_columns(pl.when(whole).then(-1).otherwise("place").alias("odd"))
    )
    changed = pl.any_horizontal(
        pl.col(c).ne_missing(pl.col(c).shift()) for c in ("key", "odd")
    )
    run = changed.cum_sum() if fold else pl.int_range(pl.len())
    return _collected(placed.with_columns(run.alias("run")))


def _by_position(keyed: pl.DataFrame) -> pl.DataFrame:
    """Fold all ranks that look alike, smallest sets first: outliers are on top."""
    found = _collected(keyed.sort("rank").with_columns(pl.col("key").alias("run")))
    return found.sort(pl.col("ranks").list.len(), "row")


def _collected(placed: pl.DataFrame) -> pl.DataFrame:
    return (
        placed.group_by("run", maintain_order=True)
        .agg(
            pl.col("section").unique(maintain_order=True).alias("sections"),
            pl.col("row").first(),
            pl.col("rank").alias("ranks"),
        )
        .drop("run")
    )


def _natural(names: pl.Series) -> pl.DataFrame:
    """Return `section place`: gpu2 before gpu10, empty names last."""
    found: Sequence[str] = names.unique().to_list()
    ordered = sorted(found, key=lambda name: (not name, natural(name)))
    return pl.DataFrame(
        {"section": ordered, "place": range(len(ordered))},
        schema={"section": pl.String, "place": pl.Int64},
    )
