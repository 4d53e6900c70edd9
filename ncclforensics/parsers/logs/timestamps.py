"""Parses log timestamps to UTC nanoseconds, as far as they are complete.

A stamp with a zone is exact. A stamp without one is read as UTC: only the order within
one job matters, and its hosts share a zone. c10 and torch's Python logging print no
year (`E602`, `W0602`), so such a stamp goes to a separate column, in the leap year
1972, until `correlate` knows the year from other evidence; one without a date goes to a
third.
"""

from __future__ import annotations

from functools import cache

import polars as pl

from ncclforensics.model.tables import TIME, YEARLESS
from ncclforensics.parsers.logs.ascii_regex import ascii_only

# no two zones are nearer, so a shorter delay is none of zones; a shipper may print
# whole seconds
LONGEST_DELAY, COARSE = pl.duration(minutes=15), pl.duration(seconds=-1)
# Int64 nanoseconds reach from 1677 to 2262; years beyond would wrap around
_YEAR = r"(?:19|20|21)\d\d"
_ZONE = ascii_only(r"[\d.](?:Z|[+-]\d\d:?\d\d)$")
_EPOCH = ascii_only(r"^1[5-9]\d{8}\.\d+$")
_CTIME, _AMERICAN = ascii_only(rf" {_YEAR}$"), ascii_only(rf"/{_YEAR} ")
_ISO = ascii_only(
    rf"^(?P<day>{_YEAR}-\d\d-\d\d)[T ](?P<hms>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<frac>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?$"
)


@cache
def absolute(*columns: str) -> pl.Expr:
    """Parse the first stamp of `columns` that has a full date, as TIME or null.

    Accepts ISO 8601 with or without a zone, ctime's `Aug 10 15:36:05 2026`,
    `08/10/2026 15:36:05`, and seconds since 1970. A stamp with a zone takes precedence
    over all stamps without one, as theirs is not known; but where it is later by less
    than zones differ, it is a shipper's, and tells when a buffer was emptied. Without
    columns, all null.
    """
    if not columns:
        return pl.lit(None, TIME)
    stamps = [pl.col(column) for column in columns]
    zoned = [_iso(_with_zone(stamp)) for stamp in stamps]
    forms = _iso, _ctime, _american, _epoch
    if len(columns) == 1:
        [stamp] = stamps
        return pl.coalesce(zoned + [form(stamp) for form in forms]).cast(TIME)
    bare = [form(_without_zone(stamp)) for stamp in stamps for form in forms]
    both = pl.struct(pl.coalesce(zoned).alias("exact"), pl.coalesce(bare).alias("own"))
    # a struct is computed once; polars would parse each stamp wherever it is named
    return both.map_batches(_told, return_dtype=TIME)


def _told(both: pl.Series) -> pl.Series:
    exact, own = pl.col("exact"), pl.col("own")
    waited = (exact - own).is_between(COARSE, LONGEST_DELAY, closed="left")
    told = pl.when(waited).then(own).otherwise(pl.coalesce(exact, own)).cast(TIME)
    return both.struct.unnest().select(told.alias("t")).to_series()


def yearless(month_day: pl.Expr, hms: pl.Expr, syslog: pl.Expr) -> pl.Expr:
    """Parse stamps without a year: c10's, Python's, and syslog's `Aug 10 15:36:05`.

    `month_day` holds month times 100 plus day in three or four digits, or with a slash
    or dash between them; `hms` is the time.
    Returns TIME in the year YEARLESS, or null.
    """
    digits = month_day.str.replace("[/-]", "").str.zfill(4)
    c10 = pl.concat_str(pl.lit(f"{YEARLESS} "), digits, pl.lit(" "), hms)
    named = pl.concat_str(pl.lit(f"{YEARLESS} "), _single_spaced(syslog))
    return pl.coalesce(
        c10.str.to_datetime("%Y %m%d %H:%M:%S", time_unit="ns", strict=False),
        named.str.to_datetime("%Y %b %d %H:%M:%S", time_unit="ns", strict=False),
    ).dt.replace_time_zone("UTC")


def dayless(column: str) -> pl.Expr:
    """Parse stamps without a date, `09:22:31,120`, as TIME on the first day of 1970."""
    stamp = pl.col(column).str.replace(",", ".", literal=True)
    whole = pl.concat_str(pl.lit("1970-01-01 "), stamp)
    parsed = whole.str.to_datetime("%F %H:%M:%S%.f", time_unit="ns", strict=False)
    return parsed.dt.replace_time_zone("UTC")


def _iso(stamp: pl.Expr) -> pl.Expr:
    part = stamp.str.extract_groups(_ISO).struct
    zone = part.field("zone").str.replace("Z", "+0000").str.replace(":", "")
    whole = pl.concat_str(
        part.field("day"),
        pl.lit("T"),
        part.field("hms"),
        pl.lit("."),
        part.field("frac").fill_null("0").str.pad_end(9, "0"),
        zone.fill_null("+0000"),
    )
    return whole.str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%z", time_unit="ns", time_zone="UTC", strict=False
    )


def _with_zone(stamp: pl.Expr) -> pl.Expr:
    return pl.when(stamp.str.contains(_ZONE)).then(stamp)


def _without_zone(stamp: pl.Expr) -> pl.Expr:
    return pl.when(~stamp.str.contains(_ZONE)).then(stamp)


def _ctime(stamp: pl.Expr) -> pl.Expr:
    sane = pl.when(stamp.str.contains(_CTIME)).then(stamp)
    return (
        _single_spaced(sane)
        .str.to_datetime("%b %d %H:%M:%S %Y", time_unit="ns", strict=False)
        .dt.replace_time_zone("UTC")
    )


def _american(stamp: pl.Expr) -> pl.Expr:
    sane = pl.when(stamp.str.contains(_AMERICAN)).then(stamp)
    told = sane.str.to_datetime("%m/%d/%Y %H:%M:%S", time_unit="ns", strict=False)
    return told.dt.replace_time_zone("UTC")


def _epoch(stamp: pl.Expr) -> pl.Expr:
    sane = pl.when(stamp.str.contains(_EPOCH)).then(stamp)
    micros = (sane.cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Int64)
    return (
        pl.from_epoch(micros, "us").dt.cast_time_unit("ns").dt.replace_time_zone("UTC")
    )


def _single_spaced(stamp: pl.Expr) -> pl.Expr:
    return stamp.str.replace_all(r" +", " ")
