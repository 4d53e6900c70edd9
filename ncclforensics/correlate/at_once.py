"""Ranks that gave up calls of several groups at once, as only lines tell.

The order in which such a rank made them is not known. In a call that everybody came to
it is held by another, of which somebody is missing: its GPU is there. So what is behind
what follows from the calls that lack somebody.
"""

from __future__ import annotations

import polars as pl

LACKS = ("behind", "done", "absent", "unseen", "unstarted")


def settled(calls: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Return `calls` with ranks `behind` where another call is known to hold them.

    `held` tells which ranks are held in several calls alike. A call in which nobody is
    left waiting holds nobody up, and goes.
    """
    first = held.filter((pl.col("choice") == 0) & ~pl.col("is_p2p").fill_null(False))
    several = {*first.filter(pl.len().over("rank") > 1)["rank"]}
    if not several:
        return calls
    waiting = {int(c): {*w} for c, w in calls.select("call", "waiting").iter_rows()}
    lacks = pl.any_horizontal(pl.col(c).list.len() > 0 for c in LACKS).fill_null(False)
    full = {*calls.filter(~lacks)["call"]}
    calls_of: dict[int, list[int]] = {rank: [] for rank in several}
    for call, ranks in waiting.items():
        for rank in ranks & several:
            calls_of[rank].append(call)
    behind: dict[int, set[int]] = {}
    wave = waiting.keys() - full
    while wave:
        moved: set[int] = set()
        for rank in {r for call in wave for r in waiting[call]} & several:
            for call in full.intersection(calls_of[rank]):
                behind.setdefault(call, set()).add(rank)
                moved.add(call)
        for call in moved:
            waiting[call] -= behind[call]
        full -= moved
        wave = moved
    kept = calls.with_columns(
        pl.Series("waiting", [sorted(waiting[c]) for c in calls["call"]], LISTS),
        pl.Series(
            "behind",
            [
                sorted({*old, *behind.get(c, ())})
                for c, old in calls.select("call", "behind").iter_rows()
            ],
            LISTS,
        ),
    ).filter(pl.col("waiting").list.len() > 0)
    return kept.with_columns(pl.int_range(pl.len()).cast(pl.Int64).alias("call"))


LISTS = pl.List(pl.Int64())
