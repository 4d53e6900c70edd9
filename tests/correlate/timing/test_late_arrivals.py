"""A call that was open for longer than its timeout proves that its job had stopped."""

import datetime

import polars as pl
import pytest

from ncclforensics.correlate.timing import late_arrivals
from ncclforensics.model import tables

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
NAMES = pl.DataFrame(
    {"rank": [0, 1, 2], "pg": "7", "pg_desc": "DP", "pg_id": "1", "group": "g"}
)


def made(now, earlier=(0, 0, 0), timeout_ms=600_000):
    """Four calls of ranks 0 to 2, made so many minutes after their peers'."""
    rows = [
        {"rank": rank, "pg": "7", "pg_desc": "DP", "pg_id": "1", "seq": seq}
        | {"is_p2p": False, "backend": "nccl", "timeout_ms": timeout_ms}
        | {"t": EPOCH + MINUTE * (seq + late[rank]), "source": f"d{rank}", "line": seq}
        for seq, late in enumerate((earlier, earlier, earlier, now))
        for rank in range(3)
    ]
    return tables.rows("collectives", rows)


def late(entries, **states):
    call = {"call": 0, "group": "g", "pg": "7", "pg_desc": "DP", "seq": 3}
    call |= {"is_p2p": False, "members": [0, 1, 2]}
    none = {key: [] for key in ("waiting", "behind", "done", "absent", "unseen")}
    frame = tables.rows("calls", [{**call, **none, **states}])
    return late_arrivals.late(frame, entries.lazy(), NAMES)["rank"].to_list()


@pytest.mark.parametrize("state", ["done", "behind"])
def test_who_came_when_the_others_had_given_up_is_late_whatever_became_of_it(state):
    entries = made((0, 0, 11))
    assert late(entries, waiting=[0, 1], **{state: [2]}) == [2]
    assert late(entries, waiting=[0, 1, 2]) == [2]


def test_who_is_a_little_late_at_every_call_and_then_by_a_timeout_is_late():
    entries = made((0, 0, 10.5), earlier=(0, 0, 0.75))
    assert late(entries, waiting=[0, 1], behind=[2]) == [2]


@pytest.mark.parametrize(
    "entries",
    [
        made((0, 0, 9)),  # within the timeout
        made((0, 0, 11), earlier=(0, 0, 11)),  # a clock that is ahead
        made((0, 11, 11)),  # most of them
    ],
)
def test_nobody_is_late(entries):
    assert late(entries, waiting=[0, 1], done=[2]) == []


@pytest.mark.parametrize(
    ("begun", "told", "proven"),
    [(11, 600_000, True), (9, 600_000, False), (11, None, True), (9, None, False)],
)
def test_a_dump_that_is_as_much_newer_than_its_open_call_as_a_timeout(
    begun, told, proven
):
    """Such a call's beginning is found when the dump is taken; NCCL waits 10 min."""
    entries = made((0, 0, 0), timeout_ms=told)
    held = entries.filter((pl.col("seq") == 3) & (pl.col("rank") == 0))
    held = held.with_columns(choice=pl.lit(0))
    newest = entries.filter((pl.col("seq") == 0) & (pl.col("rank") == 0))
    seen = held["t"].first() + begun * MINUTE
    outline = pl.concat(
        [entries, newest.with_columns(t_started=pl.lit(seen).cast(tables.TIME))]
    )
    found = late_arrivals.overdue(held, outline)
    assert found.is_empty() is not proven
    talk = held.with_columns(is_p2p=pl.lit(True))
    assert late_arrivals.overdue(talk, outline).is_empty()
