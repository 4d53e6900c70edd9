"""A delay that lasts through a row of calls is told from work that is slow in each."""

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
