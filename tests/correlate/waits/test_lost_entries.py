"""A ring that lost the entry of an open call: the counters of its group show it."""

import pickle

import pytest

from log_lines import open_call
from ncclforensics.analysis import analyze

T0 = 1_800_000_000_000_000_000
GROUPS = {
    "1": {"name": "1", "desc": "pair", "ranks": "[0, 1]"},
    "2": {"name": "2", "desc": "others", "ranks": "[0, 2]"},
}


def entry(record, group, seq, *, ended):
    return open_call("nccl", T0 + record * 100_000_000) | {
        "record_id": record,
        "pg_id": int(group),
        "process_group": (group, GROUPS[group]["desc"]),
        "collective_seq_id": seq,
        "op_id": seq,
        "state": "completed" if ended else "scheduled",
        "retired": ended,
    }


def status(enqueued, completed):
    names = ("last_enqueued_collective", "last_completed_collective")
    return dict(zip(names, (enqueued, completed), strict=True))


@pytest.mark.parametrize(("completed", "over"), [(4, []), (5, [0])])
def test_it_is_over_only_if_they_say_so(tmp_path, completed, over):
    """Rank 0 made call 5 of the pair, and then more calls than its ring holds."""
    ring = [entry(90 + n, "2", 7 + n, ended=False) for n in range(3)]
    waits = [entry(n, "1", n + 1, ended=n < 4) for n in range(5)]
    dumps = [
        (ring, {"1": status(5, completed), "2": status(9, 6)}),
        (waits, {"1": status(5, 4)}),
    ]
    for rank, (entries, counters) in enumerate(dumps):
        dump = {"version": "2.10", "pg_config": GROUPS, "pg_status": counters}
        file = tmp_path / f"nccl_trace_rank_{rank}"
        file.write_bytes(pickle.dumps(dump | {"entries": entries}, protocol=2))
    calls = analyze([str(tmp_path)]).frames["calls"]
    pair = calls.filter(pg="1")
    assert pair["waiting"].to_list() == [[1]]
    assert pair["done"].to_list() == [over]


SIGNAL = (
    "[rank{0}]:[E1120 10:00:00.686224934 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID "
    "0(default_pg) Rank {0}] Received a dump signal due to a collective timeout from "
    "{1} and we will try our best to dump the debug info. Last enqueued NCCL work: "
    "{2}, last completed NCCL work: 57.This is most likely caused by incorrect usages "
    "of collectives\n"
)


GAVE_UP = (
    "[rank3]:[E1120 10:00:00.426182607 ProcessGroupNCCL.cpp:757] [Rank 3] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=58, OpType=ALLREDUCE, "
    "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600077 milliseconds before "
    "timing out.\n"
    "[rank3]:[E1120 10:00:00.426302794 ProcessGroupNCCL.cpp:2395] [PG ID 0 PG GUID "
    "0(default_pg) Rank 3]  failure detected by watchdog at work sequence id: 58 PG "
    "status: last enqueued work: 98, last completed work: 57\n"
)


def test_where_counters_are_all_that_a_log_has_who_is_behind_is_named(analyzed):
    own, far = "this local rank", " rank 3"
    logs = {f"rank_{r}.log": SIGNAL.format(r, own, 98) for r in (0, 1)}
    logs |= {"rank_2.log": SIGNAL.format(2, far, 57), "rank_3.log": GAVE_UP}
    found = analyzed(logs).ranked.verdict
    assert found is not None
    assert (found.slug, found.ranks) == ("missing-rank", (2,))
