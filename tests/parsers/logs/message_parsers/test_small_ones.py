"""The structures of a few lines each."""

import pytest

from ncclforensics.parsers.logs.message_parsers import (
    collective_stack,
    nccl_error,
    rank_set,
    rendezvous,
    smi_fabric,
    systemctl_status,
)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("[1, 2]", [1, 2]),
        ("0-3,7", [0, 1, 2, 3, 7]),
        ("Ranks 1, 2", [1, 2]),
        ("rank 5", [5]),
        ("tasks 0-2", [0, 1, 2]),
        ("none of them", []),
        ("7-3", []),
    ],
)
def test_rank_sets(text, ranks):
    assert rank_set.ranks(text) == ranks


def test_a_range_that_no_job_has_is_left_out():
    assert rank_set.ranks("0-999999999") == []


def test_a_call_site_is_read_frame_by_frame():
    frames = collective_stack.parse(
        "Stack trace of the failed collective: \n"
        "#0 all_reduce from /opt/torch/distributed/distributed_c10d.py:3174\n"
        "#1 <lambda> from /job/a b/train.py:70\n"
        "#2 _run_code from <frozen runpy>:88\n"
    )
    assert [(f["depth"], f["function"], f["file"], f["file_line"]) for f in frames] == [
        (0, "all_reduce", "/opt/torch/distributed/distributed_c10d.py", 3174),
        (1, "<lambda>", "/job/a b/train.py", 70),
        (2, "_run_code", "<frozen runpy>", 88),
    ]


def test_the_class_and_the_last_words_of_an_nccl_error():
    (row,) = nccl_error.parse(
        "NCCL error in: a.cpp:1, internal error, NCCL version 2.27.5\n"
        "ncclInternalError: Internal check failed.\n"
        "Last error:\n"
        "Duplicate GPU detected : rank 0 and rank 1 both on device 1b"
    )
    assert row == {
        "error_class": "ncclInternalError",
        "explanation": "Internal check failed.",
        "last_error": "Duplicate GPU detected : rank 0 and rank 1 both on device 1b",
    }


def test_an_nccl_error_without_more_is_still_a_row():
    assert nccl_error.parse("NCCL error in: a.cpp:1, unhandled cuda error") == [
        {"error_class": None, "explanation": None, "last_error": None}
    ]


RENDEZVOUS = """[default] Rendezvous complete for workers. Result:
  restart_count=1
  master_addr=gpu0001
  master_port=29500
  group_rank=1
  group_world_size=2
  local_ranks=[0, 1]
  role_ranks=[2, 3]
  global_ranks=[2, 3]
"""


MET = {"nodes": 2, "master": "gpu0001"}


def test_a_rendezvous_tells_the_global_rank_of_each_local_one():
    assert rendezvous.parse(RENDEZVOUS) == [
        {"local_rank": local, "rank": rank, "attempt": 1, "node": 1, **MET}
        for local, rank in ((0, 2), (1, 3))
    ]


def test_a_rendezvous_that_breaks_off_tells_nothing():
    assert rendezvous.parse(RENDEZVOUS[: RENDEZVOUS.index("global_ranks")]) == []


@pytest.mark.parametrize(
    ("state", "row"),
    [
        ("active (running) since Fri", {"active": "active", "sub": "running"}),
        (
            "failed (Result: exit-code)",
            {"active": "failed", "sub": "Result: exit-code"},
        ),
        ("inactive (dead)", {"active": "inactive", "sub": "dead"}),
    ],
)
def test_the_state_of_a_unit(state, row):
    text = (
        "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n"
        "     Loaded: loaded (/lib/systemd/nvidia-fabricmanager.service; enabled)\n"
        f"     Active: {state}\n"
    )
    assert systemctl_status.parse(text) == [
        {"unit": "nvidia-fabricmanager.service", **row}
    ]


def test_the_fabric_of_a_gpu_ends_where_its_section_does():
    text = """    Fabric
        State                             : In Progress
        Status                            : N/A
        CliqueId                          : 0
    Processes
        Status                            : other
"""
    (row,) = smi_fabric.parse(text)
    assert (row["state"], row["status"], row["clique"]) == ("In Progress", "N/A", "0")
    assert row["cluster"] is None
