"""Dumps of an earlier job beside the logs of this one are told."""

from datetime import UTC, datetime, timedelta

import pytest

from ncclforensics.correlate.timing import old_dumps
from ncclforensics.model import tables
from ncclforensics.model.frames import Frames

LOGGED = datetime(2026, 11, 20, 12, tzinfo=UTC)


def frames(newest):
    """A log line, and a dump with a call of some time."""
    call = {"rank": 0, "op": "all_reduce", "t": newest, "source": "dump", "line": 1}
    line = {"message": "nccl.version", "t": LOGGED, "source": "log", "line": 1}
    files = [
        {"source": "dump", "kind": "flight_recorder"},
        {"source": "log", "kind": "log"},
    ]
    return Frames(
        {
            "collectives": tables.rows("collectives", [call]),
            "events": tables.rows("events", [line]),
            "sources": tables.rows("sources", files),
        }
    )


@pytest.mark.parametrize("days", [3, 300])
def test_dumps_that_end_days_before_the_logs_begin_are_noted(days):
    told = old_dumps.noted(frames(LOGGED - timedelta(days=days)))
    (text,) = told["notes"]["text"]
    assert f"{days} days older" in text


@pytest.mark.parametrize("days", [-30, 0, 1])
def test_dumps_of_the_time_of_the_logs_or_later_are_not(days):
    assert old_dumps.noted(frames(LOGGED - timedelta(days=days)))["notes"].is_empty()
