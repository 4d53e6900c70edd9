"""A delay that lasts through a row of calls is told from work that is slow in each."""

import random

import polars as pl
import pytest

from ncclforensics.correlate.timing import own_time

WORK = {0: 0.1, 1: 0.01, 2: 0.04}  # seconds before each kind of call


def calls(late, backend="nccl"):
    """Two ranks in ten steps; rank 1 comes `late[kind]` seconds after rank 0."""
    rows = []
    for rank in range(2):
        now = 0.0
        for _ in range(10):
            for kind, work in WORK.items():
                now += work
                rows.append(
                    {"rank": rank, "kind": kind, "group": "0", "backend": backend}
                    | {"made": now, "late": late[kind] * rank}
                )
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    ("late", "backend", "stays"),
    [
        (dict.fromkeys(WORK, 0.003), "nccl", True),
        ({kind: work * 0.1 for kind, work in WORK.items()}, "nccl", False),
        (dict.fromkeys(WORK, 0.003), "gloo", False),  # it holds who calls
    ],
)
def test_who_is_as_late_behind_little_work_as_behind_much_was_late_once(
    late, backend, stays
):
    told = own_time._staying(calls(late, backend))
    assert dict(told.select("kind", "stays").iter_rows()) == dict.fromkeys(WORK, stays)


def pairs(label):
    """Four ranks in 40 steps of two equal calls and another one, with GPU times.

    Rank 3 comes late to the first of the pair; the second begins at once.
    """
    chance, rows = random.Random(1), []
    for step in range(40):
        first, second = chance.uniform(0.02, 0.1), chance.uniform(0.0, 0.02)
        for rank in range(4):
            waits = (rank < 3) * first, (rank < 3) * second, 0.002 * rank
            for place, wait in enumerate(waits):
                call = 3 * step + place
                rows.append(
                    {"rank": rank, "meets": call, "place": call, "group": "0"}
                    | {"same": label + (place == 2), "took": 0.01 + wait}
                )
    return pl.DataFrame(rows).sort("rank", "place")


@pytest.mark.parametrize("label", range(0, 160, 10))
def test_a_pair_of_equal_calls_is_a_row_whichever_is_read_first(label):
    told = own_time._timed(pairs(label))
    ends = told.filter(pl.col("same") == label)["blocks"]
    assert not ends.any()
