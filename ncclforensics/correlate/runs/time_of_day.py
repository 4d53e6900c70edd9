"""Dates for stamps that tell the time of day alone: `09:22:31 step 3000 saved`.

A program's lines stand in order, so a time that is earlier by half a day begins another
one. Which days they are, the other stamps of the file tell, the nearest dates of the
job, or the time at which the file was written, if that is the time of its last line in
any zone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.runs import clock
from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.model.tables import TIME

if TYPE_CHECKING:
    from ncclforensics.model.frames import Frames

DAY, HALF = timedelta(days=1), timedelta(hours=12)
CLOSE = timedelta(seconds=60)  # of a file's last line, within which it was written
FULL, YEARLESS = "t", "yearless"


def dated(frames: Frames) -> Frames:
    """Return frames with `t`, or `yearless`, of the stamps that have no date."""
    events = frames["events"]
    if not events["dayless"].count():
        return frames
    stamps = _stamps(frames)

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"dayless", "source", "line"} <= set(frame.columns):
            return frame
        joined = frame.join(
            stamps, on=["source", "line"], how="left", maintain_order="left"
        )
        bare = pl.all_horizontal(pl.col(FULL, YEARLESS).is_null())
        return joined.with_columns(
            pl.when(bare).then(f"_{c}").otherwise(c).alias(c) for c in (FULL, YEARLESS)
        ).drop(f"_{FULL}", f"_{YEARLESS}")

    return frames.each(fill)


def _stamps(frames: Frames) -> pl.DataFrame:
    """Return `source line _t _yearless` of the lines that only tell a time of day."""
    lines = frames["events"].select("source", "line", FULL, YEARLESS, "dayless")
    own = lines.sort("source", "line").with_columns(
        pl.col(c).forward_fill().backward_fill().over("source").alias(f"of_{c}")
        for c in (FULL, YEARLESS)
    )
    bare = own.filter(
        pl.col("dayless").is_not_null()
        & pl.all_horizontal(pl.col(FULL, YEARLESS).is_null())
    ).unique(["source", "line"], keep="first", maintain_order=True)
    back = pl.col("dayless").diff().over("source") < -HALF
    later = back.fill_null(False).cast(pl.Int64).cum_sum().over("source")
    since = bare.with_columns(time=pl.col("dayless") + later * pl.lit(DAY))
    end = pl.concat([lines[FULL], outline(frames)["t"]]).max()
    near = {
        FULL: _days(pl.lit(end, TIME)),
        YEARLESS: _days(pl.lit(lines[YEARLESS].max(), TIME)),
    }
    files = frames["sources"].select("source", "modified").unique("source")
    # of one file all stamps are moved by as many days
    told = since.join(files, on="source", how="left", maintain_order="left").select(
        *("source", "line", "time"),
        *(_days(pl.col(f"of_{c}")).first().over("source").alias(c) for c in near),
        *(days.last().over("source").alias(f"near_{c}") for c, days in near.items()),
        _written().over("source").alias("written"),
    )
    full, other = pl.col(FULL), pl.col(YEARLESS)
    full = pl.coalesce(full, pl.when(other.is_null()).then(f"near_{FULL}"))
    other = pl.when(full.is_null()).then(pl.coalesce(other, f"near_{YEARLESS}"))
    full = pl.coalesce(full, pl.when(other.is_null()).then("written"))
    return told.select(
        *("source", "line"),
        _moved(full).alias(f"_{FULL}"),
        _moved(other).alias(f"_{YEARLESS}"),
    )


def _moved(days: pl.Expr) -> pl.Expr:
    return (pl.col("time") + pl.duration(days=days)).cast(TIME)


def _days(anchor: pl.Expr) -> pl.Expr:
    """Return by how many whole days `time` has to be moved next to `anchor`."""
    apart = (anchor - pl.col("time") + HALF).dt.total_seconds()
    return apart.floordiv(int(DAY.total_seconds()))


def _written() -> pl.Expr:
    """Return the days up to when the file was written, if that was at its last line."""
    apart = (pl.col("modified") - pl.col("time")).dt.total_seconds().last()
    zone, close = clock.QUARTER_NS // 1_000_000_000, int(CLOSE.total_seconds())
    at_once = ((apart + close) % zone) <= 2 * close
    return pl.when(at_once).then(_days(pl.col("modified")).last())
