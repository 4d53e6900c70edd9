"""Which calls end a row of calls: a pause comes after them, as ranks wait there.

Pauses are told on the clock of each host alone, however far it is off.
"""

from __future__ import annotations

import polars as pl

CLEAR = 0.7  # logarithm of how many times longer a pause is, for two kinds of pauses
TIGHT = 1e-4  # seconds: no two ranks come to a call closer together than that


def with_turns(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `turn`: `same`, but apart where the same call ends a row, or does not.

    Layers and buckets of one size make the same call many times a step, and ranks wait
    for each other in the last of them alone. After that one the pause is longer: the
    split in two that explains most of how long pauses differ, if it is a clear one.
    """
    pause = pl.col("pause").median().clip(TIGHT).log()
    n, many = pl.int_range(1, pl.len() + 1), pl.len()
    below, total = pl.col("pause").cum_sum(), pl.col("pause").sum()
    apart = (total - below) / (many - n) - below / n
    split = pl.when(n < many).then(apart**2 * n * (many - n))
    pauses = (
        calls.with_columns(pause=pl.col("raw").shift(-1).over("rank") - pl.col("raw"))
        .drop_nulls(["meets", "pause"])
        .group_by("meets", "same")
        .agg(pause=pause)
        .sort("same", "pause", "meets")
    )
    ends = (
        pauses.with_columns(split=split.over("same"), apart=apart.over("same"))
        .drop_nulls("split")
        .sort("same", "split", "pause")
        .group_by("same", maintain_order=True)
        .agg(pl.col("pause", "apart").last())
        .filter(pl.col("apart") > CLEAR)
        .select("same", limit="pause")
    )
    rows = pauses.join(ends, on="same", how="left", maintain_order="left").select(
        "meets", is_end=pl.col("pause") > pl.col("limit")
    )
    turn = pl.struct("same", pl.col("is_end").fill_null(False)).hash(seed=0)
    return calls.join(rows, on="meets", how="left", maintain_order="left").with_columns(
        turn=turn
    )
