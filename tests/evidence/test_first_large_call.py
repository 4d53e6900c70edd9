"""The first large call over the network, where all the small ones before it ended."""

import polars as pl
import pytest

from ncclforensics.diagnosers import mtu_mismatch, stuck_in_collective
from ncclforensics.model import tables
from ncclforensics.model.findings import NotChecked
from ncclforensics.model.frames import Frames

WHERE = {"pg": "0", "pg_desc": "default_pg"}
SMALL, LARGE = [[16]], [[1 << 20]]


def frames(sizes, dtype="BFloat16", hosts=("a", "b"), first=0, network="Socket"):
    """Return ranks of which all wait in the last of these calls; the others ended."""
    members = list(range(len(hosts)))
    call = {"call": 0, "group": "0", **WHERE, "seq": len(sizes), "op": "all_reduce"}
    states = {"waiting": members, "members": members, "is_p2p": False}
    empty = ("behind", "done", "absent", "unseen", "unstarted")
    made = [
        {
            "rank": rank,
            "op": "all_reduce",
            "is_p2p": False,
            **WHERE,
            "source": f"dump_{rank}",
            "line": n + 1,
            "record_id": first + n,
            "in_sizes": size,
            "out_sizes": size,
            "seq": n + 1,
            "in_dtypes": [dtype],
            "out_dtypes": [dtype],
            "state": "scheduled" if n + 1 == len(sizes) else "completed",
        }
        for rank in members
        for n, size in enumerate(sizes)
    ]
    chosen = {"source": "a.log", "line": 1, "message": "nccl.net.selected"}
    told = tables.rows("events", [chosen]).with_columns(network=pl.lit(network))
    return Frames(
        {
            "calls": tables.rows(
                "calls", [{**call, **states, **{name: [] for name in empty}}]
            ),
            "collectives": tables.rows("collectives", made),
            "ranks": tables.rows(
                "ranks",
                [{"rank": n, "host": host} for n, host in enumerate(hosts) if host],
            ),
            "group_names": tables.rows(
                "group_names", [{"rank": n, "group": "0", **WHERE} for n in members]
            ),
            "roots": tables.rows("roots", []),
            "exits": tables.rows("exits", [{"rank": 0, "code": -6}]),
        },
        {"nccl.net.selected": told} if network else {},
    )


def told(diagnoser, given):
    (statement,) = diagnoser.diagnose(given)
    return None if isinstance(statement, NotChecked) else statement


def test_the_first_large_call_over_sockets_may_be_the_mtu():
    given = frames([SMALL, SMALL, LARGE])
    found = told(mtu_mismatch, given)
    assert (found.confidence, found.ranks, found.hosts) == ("possible", (), ())
    assert "2,097,152 bytes" in found.explanation
    assert "2 calls that ended had 32 at most" in found.explanation
    assert [(cite.source, cite.line) for cite in found.evidence] == [
        *(("dump_0", 2), ("dump_0", 3), ("a.log", 1))
    ]
    stuck = told(stuck_in_collective, given)
    assert "some MTU" in stuck.explanation
    assert any(line.startswith("ping -M do") for line in stuck.remedy)


@pytest.mark.parametrize(
    "given",
    [
        frames([SMALL, LARGE, LARGE]),
        frames([SMALL, SMALL, SMALL]),
        frames([SMALL, LARGE]),
        frames([SMALL, SMALL, LARGE], hosts=("a", "a")),
        frames([SMALL, SMALL, LARGE], first=7),
        frames([SMALL, SMALL, LARGE], dtype="Quantum"),
    ],
    ids=["large before", "small", "few", "one host", "calls lost", "unknown type"],
)
def test_other_stuck_calls_are_no_matter_of_size(given):
    assert told(mtu_mismatch, given) is None
    assert "MTU" not in told(stuck_in_collective, given).explanation


@pytest.mark.parametrize("network", ["IB", None])
def test_without_sockets_or_roce_the_call_is_stuck(network):
    given = frames([SMALL, SMALL, LARGE], network=network)
    assert told(mtu_mismatch, given) is None
    assert "some MTU" in told(stuck_in_collective, given).explanation
