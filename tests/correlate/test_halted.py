"""A host that stopped short of what its peers made meanwhile, beside a missing rank."""

import datetime

import polars as pl
import pytest

from ncclforensics import tables
from ncclforensics.correlate import halted

EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
STEP = 10.0  # seconds
QUICK = 0.001
RANKS = [0, 1, 2, 3]
MEMBERS = pl.DataFrame({"group": ["w"], "members": [RANKS]})


def program(rank, last, waits=QUICK):
    """Two steps of three calls, then those up to `last`, of which call 7 never ends.

    `waits` is how long the host waits behind the first call of a step.
    """
    times = {seq: (seq - 1) // 3 * STEP + (seq - 1) % 3 * QUICK for seq in range(1, 10)}
    return [
        {
            "source": str(rank),
            "line": seq,
            "rank": rank,
            "record_id": seq,
            "pg": "0",
            "pg_desc": "default_pg",
            "seq": seq,
            "op": "all_reduce",
            "in_sizes": [[(seq - 1) % 3]],
            "in_dtypes": ["Float"],
            "is_p2p": False,
            "backend": "nccl",
            "state": "completed" if seq < 7 else "scheduled",
            "t": EPOCH
            + datetime.timedelta(
                seconds=times[seq] + (waits if (seq - 1) % 3 else 0.0)
            ),
        }
        for seq in range(1, last + 1)
    ]


def named(*programs, absent=(3,)):
    made = tables.rows("collectives", [call for one in programs for call in one])
    outline = made.with_columns(pl.lit("w").alias("group"))
    waiting = sorted(set(made.filter(pl.col("seq") == 7)["rank"]))
    call = {"call": 0, "group": "w", "seq": 7, "waiting": waiting, "absent": absent}
    stuck = tables.rows("calls", [call])
    roots = tables.rows(
        "roots",
        [{"rank": r, "why": "absent", "call": 0, "blocked": 3} for r in absent],
    )
    calls, found = halted.halted(stuck, roots, outline, made.lazy(), MEMBERS)
    assert calls["call"].to_list() == ([1] if found.height else [])
    return found["rank"].to_list()


def test_a_host_that_stopped_behind_the_call_all_wait_in_is_missing_as_well():
    assert named(program(0, 9), program(1, 9), program(2, 7), program(3, 6)) == [2]


def test_hosts_that_came_equally_far_are_not():
    assert named(program(0, 9), program(1, 9), program(2, 9), program(3, 6)) == []


def test_one_that_always_waits_there_is_not():
    """As rank 0 does, which logs the loss of each step."""
    slow = program(2, 7, waits=1.0)
    assert named(program(0, 9), program(1, 9), slow, program(3, 6)) == []


def test_one_whose_history_is_not_kept_is_not():
    late = program(2, 7)[-1:]
    assert named(program(0, 9), program(1, 9), late, program(3, 6)) == []


@pytest.mark.parametrize("ahead", [0, 1])
def test_most_have_to_have_gone_on(ahead):
    hosts = [program(rank, 9 if rank < ahead else 7) for rank in (0, 1, 2)]
    assert named(*hosts, program(3, 6)) == []


def test_without_a_missing_rank_nobody_is():
    assert named(program(0, 9), program(1, 9), program(2, 7), absent=()) == []
