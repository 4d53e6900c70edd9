"""How long a group used to wait for its last members tells a running job from a hang."""

import datetime

import polars as pl
import pytest

from ncclforensics import tables
from ncclforensics.correlate import arrivals

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
CALL = {"pg": "7", "pg_desc": "DP", "seq": 20, "waiting": [0, 1], "behind": []}
CALL |= {"absent": [2, 3]}


def made(late_ms, calls=range(10), **more):
    """Calls a second apart, to which ranks 2 and 3 came so much later than 0 and 1."""
    rows = [
        {"rank": rank, "pg": "7", "pg_desc": "DP", "seq": seq, "is_p2p": False, **more}
        | {
            "t": EPOCH
            + datetime.timedelta(
                seconds=seq, milliseconds=late_ms * (seq % 2) * (rank > 1)
            )
        }
        for seq in calls
        for rank in range(4)
    ]
    return tables.rows("collectives", rows).lazy()


@pytest.mark.parametrize(("late_ms", "seldom"), [(20, True), (400, False)])
def test_who_was_often_waited_for_may_be_so_in_a_job_that_runs(late_ms, seldom):
    assert arrivals.is_seldom(CALL, [2, 3], made(late_ms)) is seldom


@pytest.mark.parametrize("calls", [range(2), range(20, 30)])
def test_it_is_not_known_of_few_earlier_calls(calls):
    assert not arrivals.is_seldom(CALL, [2, 3], made(0, calls))


def test_a_clock_that_is_ahead_makes_nobody_late():
    skewed = made(0).with_columns(
        pl.col("t") + pl.duration(seconds=30) * (pl.col("rank") == 3).cast(pl.Int64)
    )
    assert arrivals.is_seldom(CALL, [3], skewed)


def test_messages_are_no_calls_of_a_group():
    assert not arrivals.is_seldom(CALL, [2, 3], made(0, is_p2p=True))
