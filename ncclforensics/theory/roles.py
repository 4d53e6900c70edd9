"""Which ranks run the same program: those whose calls are much the same.

A stage of a pipeline, the first rank of a group that roots a broadcast, the experts of
one layer: each shows in what its ranks call, and how often. Rings that lost more or
less of their beginning, and a call that one rank makes alone, hardly change that.
"""

from __future__ import annotations

import polars as pl

ALIKE = 0.6  # of their calls that two ranks of one role have in common


def roles(calls: pl.DataFrame, label: str) -> pl.DataFrame:
    """Return `rank role`: ranks share a role whose calls are alike by `label`.

    `calls` has a row a call with `rank` and labels. Of two ranks the calls are alike as
    far as the shares of each label overlap.
    """
    shares = (
        calls.group_by("rank", label)
        .agg(pl.len().alias("many"))
        .with_columns(
            (pl.col("many") / pl.col("many").sum().over("rank")).alias("share")
        )
        .sort("rank", label)
    )
    heads: list[dict[int, float]] = []
    known: dict[tuple[tuple[int, int], ...], int] = {}
    found: list[tuple[int, int]] = []
    for (rank,), some in shares.group_by("rank", maintain_order=True):
        mine = dict(some.select(label, "share").iter_rows())
        key = tuple((word, round(20 * share)) for word, share in mine.items())
        if key not in known:
            known[key] = _nearest(heads, mine)
        found.append((int(str(rank)), known[key]))
    return pl.DataFrame(
        found, schema={"rank": pl.Int64(), "role": pl.Int64()}, orient="row"
    )


def _nearest(heads: list[dict[int, float]], mine: dict[int, float]) -> int:
    """Return the number of the first role that is alike; found a new one for none."""
    for number, head in enumerate(heads):
        both = sum(min(share, head.get(word, 0.0)) for word, share in mine.items())
        if both >= ALIKE:
            return number
    heads.append(mine)
    return len(heads) - 1
