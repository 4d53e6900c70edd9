"""What ncclras prints below its headings, in the spellings of NCCL 2.24 to 2.30."""

import pytest

from ncclforensics.parsers.logs.message_parsers import ras_job, ras_status

OLD = """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 (NVML 3) managed by process 483074 on node 172.16.64.210
  1 rank has not launched any operations
#0-1 (beef) MISMATCH
  3 ranks have launched up to operation 7
"""
NEW = """#0-0 (726018ea639731a2) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 6
  Rank 1 has launched up to operation 4 -- GPU 1 managed by process 26 on node 10.0.0.1
  Communicator ranks have different Broadcast operation counts
  Rank 2 has not launched any operations -- GPU 0 managed by process 5 on node h
"""


def picked(text, *keys):
    return [tuple(row[key] for key in keys) for row in ras_status.parse(text)]


def test_a_group_is_counted_and_then_listed_up_to_2_27():
    assert picked(OLD, "comm_rank", "ranks", "operation", "node") == [
        (None, 26, 6650, None),
        (None, 2, 6649, None),
        (0, None, 6649, "172.16.64.210"),
        (2, None, 6649, "172.16.64.210"),
        (None, 1, 0, None),
    ]


def test_every_operation_has_counts_of_its_own_since_2_28():
    assert picked(NEW, "op", "comm_rank", "ranks", "operation", "process") == [
        ("AllReduce", None, 3, 6, None),
        ("AllReduce", 1, None, 4, 26),
        ("Broadcast", 2, None, 0, 5),
    ]


def test_the_list_of_missing_ranks_has_two_forms():
    head = "#0-0 (cf) INCOMPLETE\n  Missing communicator data from 2 ranks\n"
    named = "  Rank 3 -- GPU 1 managed by process 9 on node 10.0.0.2\n"
    assert picked(head + named, "kind", "comm_rank", "process") == [("missing", 3, 9)]
    bare = "  The missing ranks: 3, 21\n"
    assert picked(head + bare, "kind", "comm_rank") == [("missing", 3), ("missing", 21)]


@pytest.mark.parametrize("gpus", [" GPU 5", " GPUs 0,1"])
def test_a_process_is_told_by_its_pid_and_node(gpus):
    text = f"DEAD\n  Process 348 on node 172.16.64.213 managing{gpus}\n"
    assert picked(text, "kind", "process", "node") == [
        ("process", 348, "172.16.64.213")
    ]


@pytest.mark.parametrize(
    "text", ["", "MISMATCH", "#0-0 (a) MISMATCH\nRank x -- GPU", "\0"]
)
def test_garbage_is_nothing(text):
    assert ras_status.parse(text) == []


def test_the_job_has_as_many_gpus_as_its_table_says_last():
    head = "(total)   per node  per process    (total)  (total)\n"
    table = "      4          8            1         32       32\n"
    assert ras_job.parse(head + table) == [{"nodes": 4, "processes": 32, "gpus": 32}]
    assert ras_job.parse(head) == []
