"""Loops of one call whose length is not part of the program.

A loop is one call again and again, as where a sequence is generated until it ends. If
its length differs from round to round, who leaves it early or late left no program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.theory.context_table import SEEN

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def behind(
    calls: pl.DataFrame, contexts: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows right behind a call of a loop of no certain length.

    `calls` has `rank` and `label` in order, `contexts` a hash per row of the few calls
    before it. A length is not certain if behind the same calls most rounds have another
    one than the usual. The last loop of a rank may go on, and does not count.
    """
    loops = (
        calls.select("rank", "label", run=pl.struct("rank", "label").rle_id())
        .with_columns(pl.Series("context", contexts))
        .group_by("run", maintain_order=True)
        .agg(pl.first("rank", "label", "context"), pl.len().alias("long"))
        .filter(pl.col("run") < pl.col("run").max().over("rank"))
    )
    alike = ["label", "context"]
    usual = (
        loops.group_by(*alike, "long")
        .len()
        .group_by(alike)
        .agg(pl.col("len").max().alias("usual"), pl.col("len").sum().alias("all"))
        .filter(pl.col("all") >= SEEN)
        .group_by("label")
        .agg(pl.col("usual", "all").sum())
        .filter(2 * pl.col("usual") <= pl.col("all"))
    )
    before = pl.col("label").shift(1).over("rank")
    after = before.is_in(usual["label"].implode()).fill_null(value=False)
    return calls.select(after).to_series().to_numpy()
