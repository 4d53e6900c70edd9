"""One clock: adds the year and zone that stamps lack, and corrects host clock skew.

c10 and torch's Python logging print month, day and time in local time. The year comes
from the full dates in the evidence. The zone is known if a watchdog line and a dump
record the same timeout. Host clocks are compared by events that all members of a
communicator see at once: the end of the same collective, the end of communicator
set-up. Only skew larger than the resolution of these events is corrected, and every
correction becomes a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.correlate.traces import communicators
from ncclforensics.correlate.traces.call_summary import outline
from ncclforensics.model import tables
from ncclforensics.model.notes import Note

if TYPE_CHECKING:
    from datetime import datetime

    from ncclforensics.model.frames import Frames

QUARTER_NS = 15 * 60 * 1_000_000_000  # zones differ by multiples of this
LATE_NS = 120 * 1_000_000_000  # a watchdog may log this long after it fired
GRAIN_NS = 1_000_000_000  # c10 prints whole seconds; completion is polled
SKEW = {"host": pl.String(), "skew": pl.Int64(), "seen": pl.Int64()}
FEWEST = 3  # shared events needed to judge a host's clock


def with_year(frames: Frames) -> Frames:
    """Return frames with `t` filled from `yearless`, in UTC if known, on one clock.

    Unchanged if the evidence has no full date or spans more than two years.
    """
    first, last = _dated(frames)
    if first is None or last is None:
        return frames
    years = range(first.year, last.year + 1)
    if len(years) > 2:
        return frames
    stamp = pl.col("yearless")
    away = [_away(_in_year(stamp, year), first, last) for year in years]
    chosen = _in_year(stamp, years[0])
    if len(years) > 1:
        chosen = (
            pl.when(away[0] <= away[1])
            .then(chosen)
            .otherwise(_in_year(stamp, years[1]))
        )
    zone = _zone(frames, chosen)

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if "yearless" not in frame.columns or not frame["yearless"].count():
            return frame
        local = chosen - pl.duration(nanoseconds=zone)
        return frame.with_columns(pl.coalesce("t", local).alias("t"))

    filled = _with_fed(frames.each(fill))
    text = f"stamps without a zone are {_signed(zone)} ahead of UTC, by watchdog lines"
    return on_one_clock(filled.noting(Note("correlate", text)) if zone else filled)


def comparable(frames: Frames) -> Frames:
    """Return frames whose times can be compared, though nothing tells their year.

    They are in the year YEARLESS, and not to be told. Unchanged if any year is known.
    """
    stamps = frames["events"].select("t", "yearless")
    if stamps["t"].count() or not stamps["yearless"].count():
        return frames

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        known = {"t", "yearless"} <= set(frame.columns)
        return frame.with_columns(t=pl.coalesce("t", "yearless")) if known else frame

    return frames.each(fill)


def on_one_clock(frames: Frames) -> Frames:
    """Subtract each host's clock skew from `t`; a note says so for each host."""
    errors = skew(frames).filter(pl.col("skew").abs() > GRAIN_NS)
    if errors.is_empty():
        return frames

    def shift(frame: pl.DataFrame) -> pl.DataFrame:
        if not {"t", "host"} <= set(frame.columns):
            return frame
        joined = frame.join(errors, on="host", how="left", maintain_order="left")
        error = pl.duration(nanoseconds=pl.col("skew").fill_null(0))
        return joined.with_columns((pl.col("t") - error).alias("t")).drop(
            "skew", "seen"
        )

    texts = [
        f"the clock of {host} is {_signed(wrong)} ahead of the other hosts', by "
        f"the ends of {seen:,} common calls; its times are corrected"
        for host, wrong, seen in errors.sort("host").iter_rows()
    ]
    return frames.each(shift).noting(*(Note("correlate", text) for text in texts))


def skew(frames: Frames) -> pl.DataFrame:
    """Return `host skew seen`: the nanoseconds by which each host's clock is ahead.

    Ahead of the median of all hosts, over `seen` events. Hosts that saw too few events
    together with others are left out, and so are hosts whose offset varies by a second.
    """
    hosts = frames["ranks"].drop_nulls(["rank", "host"]).select("rank", "host")
    inits = communicators.inits(frames).filter(pl.col("phase") == "COMPLETE")
    if hosts["host"].n_unique() < 2 and inits.is_empty():
        return tables.without_rows(SKEW)
    ends = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(hosts["rank"].implode())
            & (pl.col("state") == "completed")
            & (hosts["host"].n_unique() > 1)
        )
        .select("rank", "pg", "seq", pl.col("t_completed").alias("t"))
        .collect()
    )
    calls = ends.join(hosts, on="rank", how="inner").select(
        pl.concat_str("pg", pl.lit("#"), pl.col("seq").cast(pl.String)).alias("event"),
        "host",
        "t",
    )
    built = inits.select(pl.col("key").alias("event"), "host", "t")
    told = pl.concat([calls, built]).drop_nulls()
    shared = told.filter(pl.col("host").n_unique().over("event") > 1)
    # one time per host and event: the ranks of a host share its clock
    each = shared.group_by("event", "host").agg(pl.col("t").dt.epoch("ns").median())
    apart = pl.col("t") - pl.col("t").median().over("event")
    return (
        each.with_columns(apart.alias("apart"))
        .group_by("host")
        .agg(
            pl.col("apart").median().round().cast(pl.Int64).alias("skew"),
            (pl.col("apart") - pl.col("apart").median()).abs().median().alias("spread"),
            pl.len().cast(pl.Int64).alias("seen"),
        )
        .filter((pl.col("seen") >= FEWEST) & (pl.col("spread") < GRAIN_NS))
        .select("host", "skew", "seen")
        .sort("host")
    )


def _with_fed(frames: Frames) -> Frames:
    """Fill null `t` of `positions` and `exits` from the lines they were read from."""
    times = frames["events"].select("source", "line", pl.col("t").alias("_t"))
    times = times.drop_nulls().unique(["source", "line"], keep="first")

    def fill(frame: pl.DataFrame) -> pl.DataFrame:
        if not frame["t"].null_count():
            return frame
        joined = frame.join(
            times, on=["source", "line"], how="left", maintain_order="left"
        )
        return joined.with_columns(pl.coalesce("t", "_t").alias("t")).drop("_t")

    fed = {name: fill(frames[name]) for name in ("positions", "exits")}
    return frames.adding(**fed)


def _dated(frames: Frames) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and the latest full date in the evidence."""
    told = frames["events"]["t"], frames["exits"]["t"], outline(frames)["t"]
    t = pl.concat(told)
    return t.min(), t.max()  # type: ignore[return-value]


def _in_year(stamp: pl.Expr, year: int) -> pl.Expr:
    """Put a stamp of leap year 1972 into another year; 29 February may become null."""
    text = stamp.dt.to_string(f"{year}-%m-%dT%H:%M:%S%.9f")
    moved = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="ns", strict=False)
    return moved.dt.replace_time_zone("UTC")


def _away(stamp: pl.Expr, first: datetime, last: datetime) -> pl.Expr:
    """Return how far a time lies outside the dated range of the evidence."""
    early, late = pl.lit(first) - stamp, stamp - pl.lit(last)
    return pl.max_horizontal(early, late, pl.duration(nanoseconds=0))


def _zone(frames: Frames, chosen: pl.Expr) -> int:
    """Return how many nanoseconds stamps without a zone are ahead of UTC.

    A watchdog prints how long a call ran before it gave up, and a dump holds when that
    call was made: the sum is the time of the line. 0 if nothing shows a zone, or
    several do.
    """
    lines = frames.message("c10d.watchdog.timeout")
    if not {"ran_ms", "timed_out"} <= set(lines.columns):
        return 0
    told = lines.with_columns(chosen.alias("local")).drop_nulls(
        ["local", "ran_ms", "rank"]
    )
    made = (
        frames.scan("collectives")
        .filter(
            pl.col("rank").is_in(told["rank"].unique().implode())
            & pl.col("seq").is_in(told["timed_out"].unique().implode())
        )
        .select("rank", pl.col("seq").alias("timed_out"), pl.col("t").alias("made"))
        .drop_nulls()
        .collect()
    )
    both = told.join(made, on=["rank", "timed_out"])
    late = (
        both["local"].dt.epoch("ns")
        - both["made"].dt.epoch("ns")
        - both["ran_ms"] * 1_000_000
    )
    zones = (late / QUARTER_NS).round().cast(pl.Int64) * QUARTER_NS
    clear = zones.filter((late - zones).abs() < LATE_NS).unique()
    return int(clear.item()) if clear.len() == 1 else 0


def _signed(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    if abs(nanoseconds) >= QUARTER_NS:
        return f"{seconds / 3600:+.2f} h"
    return f"{seconds:+.1f} s"
