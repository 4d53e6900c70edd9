"""Whether ranks come last far more than their peers, or as any might by chance."""

from __future__ import annotations

import polars as pl

SHUFFLES = 1999  # to estimate it


def chance(met: pl.DataFrame, mine: pl.Series, most: float) -> float:
    """Return the chance that any ranks cost as much as `mine` by being last.

    What a call costs is how far its last rank is behind the next, at `most` so many
    seconds. A permutation test in blocks: if no rank differs, what each slice lost is
    anybody's; the largest sum of any is compared with that of `mine`, so that it is
    right for as many ranks as there are (Westfall and Young 1993, maxT).
    """
    # importing numpy starts threads, after which workers must not be forked
    import numpy as np

    # slow ranks of one host are one
    who = pl.when(~pl.col("rank").is_in(mine.implode())).then("rank").alias("who")
    late = pl.col("late")
    cost = (
        met.group_by("meets", who)
        .agg(late.max(), pl.col("slice").median())
        .group_by("meets")
        .agg(
            pl.col("who").sort_by("late").last(),
            pl.col("slice").median(),
            led=(late.max() - late.top_k(2).min()).clip(0, most),
        )
        .group_by("slice", "who")
        .agg(pl.col("led").sum())
        .sort("slice", "who")
    )
    own = float(cost.filter(pl.col("who").is_null())["led"].sum())
    units = max(met["rank"].n_unique() // mine.len(), 2)
    led, draw = cost["led"].to_numpy(), np.random.default_rng(0)
    sums = (
        np.bincount(draw.integers(0, units, len(led)), led, units).max()
        for _ in range(SHUFFLES)
    )
    return (1 + sum(float(one) >= own for one in sums)) / (SHUFFLES + 1)
