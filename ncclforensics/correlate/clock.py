"""One clock: gives stamps without a year the year that other evidence tells.

c10 and torch's Python logging print month, day and time. Where all full dates of the
evidence (Flight Recorder times, NCCL and agent stamps) share one year, that is the year
of the others; where they do not, or there are none, such a time stays unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Iterable


def year_of(frames: Frames) -> int | None:
    """Return the one year of all full dates in the evidence, or None."""
    dated = pl.concat(
        frames[name].select(pl.col("t").dt.year()) for name in ("events", "collectives")
    )
    years = dated["t"].drop_nulls().unique()
    return int(years.item()) if years.len() == 1 else None


def with_year(frames: Frames) -> Frames:
    """Fill `t` from `yearless` in every frame that has both."""
    year = year_of(frames)
    if year is None:
        return frames
    filled = pl.coalesce("t", pl.col("yearless").dt.replace(year=year))

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if "yearless" not in frame.columns:
            return frame
        return frame.with_columns(filled.alias("t"))

    return Frames(
        {name: fill(frame) for name, frame in frames.tables.items()},
        {name: fill(frame) for name, frame in frames.messages.items()},
    )


def earliest(frames: Iterable[pl.DataFrame]) -> int | None:
    """Return the first `t` of some frames, in UTC nanoseconds."""
    first = [frame["t"].min() for frame in frames if "t" in frame.columns]
    times = [int(pl.Series([t]).dt.epoch("ns").item()) for t in first if t is not None]
    return min(times) if times else None
