"""Group ranks into roles: ranks that make much the same calls run the same program.

A pipeline stage, the first rank of a group that roots a broadcast, the experts of one
layer: each role shows in which calls its ranks make, and how often. It hardly matters
how much the ring buffers have lost of their beginning, or that one rank makes a call
alone.
"""

from __future__ import annotations

import polars as pl

from ncclforensics.model.plans import collected

ALIKE = 0.6  # share of their calls that two ranks of one role have in common


def roles(calls: pl.DataFrame, label: str) -> pl.DataFrame:
    """Return `rank role` (both i64): ranks with similar calls share a role.

    `calls` has one row per call, with `rank` and the column `label`. The similarity of
    two ranks is the overlap of their shares of each label.
    """
    shares = collected(
        calls.lazy()
        .group_by("rank", label)
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
    """Return the number of the first similar role, or of a new one."""
    for number, head in enumerate(heads):
        both = sum(min(share, head.get(word, 0.0)) for word, share in mine.items())
        if both >= ALIKE:
            return number
    heads.append(mine)
    return len(heads) - 1
