"""Formats times as RFC 3339, as used in the contract."""

from __future__ import annotations

from datetime import datetime, timedelta

from ncclforensics.model.tables import YEARLESS

_EPOCH = datetime(1970, 1, 1)  # UTC, without a zone so that isoformat ends in seconds


def rfc3339(t: int | None) -> str | None:
    """Format UTC nanoseconds as RFC 3339.

    None if None, beyond the year 9999, or if nothing tells the year.
    """
    if t is None:
        return None
    seconds, nanoseconds = divmod(t, 1_000_000_000)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    if moment.year == YEARLESS:
        return None
    return f"{moment.isoformat()}.{nanoseconds:09d}Z"
