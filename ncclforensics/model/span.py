"""A span of time that a person asks for, as the options --since and --until take it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ncclforensics.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` to `until`, both included, in UTC nanoseconds; None is open."""

    since: int | None = None
    until: int | None = None


ALWAYS = Span()


def between(since: str | datetime | None, until: str | datetime | None) -> Span:
    """Return the span between two times, as the options of that name take them.

    A time is a datetime or ISO 8601, in UTC unless it has a zone. Raises UsageError on
    any other text, and on times in the wrong order.
    """
    first, last = _moment("--since", since), _moment("--until", until)
    if first is not None and last is not None and first > last:
        raise UsageError("--since is later than --until")
    return Span(first, last)


def _moment(option: str, told: str | datetime | None) -> int | None:
    """Return a time in UTC nanoseconds."""
    if told is None:
        return None
    try:
        moment = told if isinstance(told, datetime) else datetime.fromisoformat(told)
    except ValueError:
        like = "2026-01-02T03:04:05Z"
        raise UsageError(f"{option}: {told!r} is not a time such as {like}") from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since_epoch = zoned - datetime.fromtimestamp(0, UTC)
    return since_epoch // timedelta(microseconds=1) * 1000
