"""When a call is over for a rank that only waits at the end of a row of calls.

A rank on NCCL hands its GPU one call after the other, and waits at the last of them.
There it waits for whoever was late to any call of its row, and for whoever these waited
for in theirs: no call begins on a GPU before the one before it is over.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.correlate.timing.turns import TIGHT

ROUNDS = 16  # groups that wait for each other in a row, one by the other


def over(calls: pl.DataFrame) -> pl.DataFrame:
    """Add `over` (s): when the last member of each call was free to begin it.

    `calls` has `rank group meets made blocks`, in order. Calls that no member waits in
    make a row with those after them, up to one that blocks. `counts` is the last call
    of each group in a row: who is late to a row is late to all of its calls.
    """
    made, last = pl.col("made"), pl.col("over")
    ends = pl.col("blocks").shift(1, fill_value=False).over("rank")
    calls = calls.with_columns(
        row=ends.cum_sum().over("rank"),
        over=pl.when(pl.col("meets").is_null())
        .then(made)
        .otherwise(made.max().over("meets")),
    )
    if calls["blocks"].all():
        return calls.with_columns(counts=pl.lit(True)).drop("row")
    before = last.shift(1).cum_max().over("rank", "row")
    free = pl.max_horizontal(last, before)
    for _ in range(ROUNDS):
        again = calls.with_columns(over=free).with_columns(
            over=pl.when(pl.col("meets").is_null())
            .then(last)
            .otherwise(last.max().over("meets"))
        )
        moved = float(str((again["over"] - calls["over"]).max() or 0.0))
        calls = again
        if moved < TIGHT:
            break
    own = ("rank", "row", "group")
    is_last = pl.int_range(pl.len()).over(own) == pl.len().over(own) - 1
    return calls.with_columns(counts=is_last).drop("row")
