"""Which clock's ranks set the pace of the job: the others' next calls follow theirs.

Two things look alike in the times of calls: a host whose clock is ahead, and a host
whose ranks come late. But whoever is the last lets all others go, so what it comes
later or earlier in one step than in another, all others are in the next. A clock that
is ahead moves nobody.
"""

from __future__ import annotations

import polars as pl

FOLLOWED = 0.6  # spread of the others' next calls after it, against that after others
IN_STEP = 5.0  # how many times further off than other clocks are it must be
LEAST = 30  # meetings
FEW = 4  # clocks
TRIED = 2
MANY, MOST = 6, 0.9  # of so many clocks so large a share must agree
SYNCED = 0.02  # seconds; fewer clocks that are further apart may agree by chance
CLOCKS = 3  # at least: of two that differ, nothing tells which is right


def ahead_for_real(calls: pl.DataFrame) -> list[int]:
    """Return the clocks that seem ahead, and whose ranks set the pace; best first.

    `calls` are those of `arrivals`, with `off`, what each clock was taken to be off.
    """
    shift = calls.select("clock", "off").unique("clock").drop_nulls()
    both = shift.join(_spread(calls), on="clock")
    if both.height < CLOCKS:
        return []
    usual = float(str(both["spread"].median()))
    found = both.filter(
        (pl.col("off") > 0)
        & (pl.col("spread") < FOLLOWED * usual)
        & (pl.col("meetings") >= LEAST)
    )
    return found.sort("spread", "clock")["clock"].to_list()[:TRIED]


def apart(off: pl.DataFrame, late: int, told: pl.DataFrame) -> float | None:
    """Return how far the other clocks are apart in seconds, if it is far less.

    That is, than the clock `late` seems to be ahead in `told`. `off` are the offsets of
    the other clocks among themselves.
    """
    ahead = float(told.filter(pl.col("clock") == late)["off"][0])
    far = (off["off"] - off["off"].median()).abs()
    # who waited for the late one in another group comes late as well
    most = far.quantile(MOST, "lower") if far.len() >= MANY else far.max()
    if far.is_empty() or ahead <= IN_STEP * float(str(most)):
        return None
    if far.len() < MANY and float(str(most)) > SYNCED:
        return None
    return float(str(most))


def _spread(calls: pl.DataFrame) -> pl.DataFrame:
    """Return `clock spread meetings`: how loosely the others' next calls follow it."""
    kind = ["group", "kind"]
    told = (
        calls.with_columns(next=pl.col("made").shift(-1).over("rank"))
        .filter(pl.col("meets").is_not_null() & pl.col("next").is_not_null())
        .with_columns(at=pl.col("made").median().over("meets"))
        .with_columns((pl.col(c) - pl.col("at")).alias(c) for c in ("made", "next"))
        .with_columns(pl.col("next") - pl.col("next").median().over(*kind, "rank"))
    )
    by = ["meets", *kind, "clock"]
    sides = told.group_by(by).agg(
        pl.col("made").max(),
        pl.col("next").sum().alias("theirs"),
        pl.len().alias("n"),
        pl.col("next").median(),
    )
    others = pl.col("theirs").sum().over("meets") - pl.col("theirs")
    many = pl.col("n").sum().over("meets") - pl.col("n")
    # a median is not moved by one long step; of few it is that of the clock itself
    typical = (
        pl.when(pl.len().over("meets") > FEW)
        .then(pl.col("next").median().over("meets"))
        .otherwise(others / many)
    )
    usual = pl.col("after").median().over(*kind, "clock")
    after = (
        sides.filter(many > 0)
        .with_columns(after=typical - pl.col("made"))
        .with_columns(off_by=(pl.col("after") - usual).abs())
    )
    each = after.group_by("clock", *kind).agg(
        pl.col("off_by").median(), pl.len().alias("meetings")
    )
    return each.group_by("clock").agg(
        (pl.col("off_by") * pl.col("meetings")).sum().alias("spread")
        / pl.col("meetings").sum(),
        pl.col("meetings").sum(),
    )
