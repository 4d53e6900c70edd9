"""The wait-for graph in boxes: from the crowd to the end, folded and bounded."""

from __future__ import annotations

import pytest

import simulate_timeline
from known_jobs import known
from ncclforensics.report import wait_groups as groups
from ncclforensics.report.wait_groups import wait_groups


def drawn(name):
    found = known(name)
    return wait_groups(found.report, found.frames)


def thousand():
    job = simulate_timeline.Job(ranks=1024, calls=40, culprit=617)
    return simulate_timeline.report(job), simulate_timeline.frames(job)


def test_the_crowd_waits_for_the_culprit():
    end, crowd = drawn("torch-missing-rank-two-hosts").boxes
    assert end.lines == ("rank 6 on gpu0002", "never made that call", "culprit")
    assert crowd.lines[0] == "7 ranks: 0-5,7"
    assert crowd.lines[1:] == (
        "wait in all_reduce SeqNum=5",
        "process group 0 (default_pg)",
    )
    assert (crowd.level, crowd.waits_for) == (1, (0,))


def test_a_chain_leads_from_box_to_box():
    told = drawn("torch-chain")
    ways = [(box.level, box.lines[0], box.waits_for) for box in told.boxes]
    assert ways == [
        (0, "rank 1 on gpu0001", ()),
        (1, "rank 0", (0,)),
        (2, "rank 2", (1,)),
        (3, "rank 3", (2,)),
    ]


def test_ranks_of_a_circle_wait_themselves():
    end, crowd = drawn("torch-call-order-deadlock").boxes
    assert end.lines[1:] == (
        "in another call that has not finished",
        "possible culprit",
    )
    assert crowd.lines[0] == "2 ranks: 2-3"


@pytest.mark.parametrize("name", ["torch-healthy", "nccl-docker0", "torch-full-disk"])
def test_nothing_is_drawn_where_nobody_waits(name):
    assert drawn(name) is None


def test_groups_of_one_kind_share_a_box():
    report, frames = thousand()
    end, own, tensor, others = wait_groups(report, frames).boxes
    assert end.lines[0] == "rank 617 on gpu0077"
    assert own.lines[2] == "process group d1 (DATA_PARALLEL_GROUP)"
    assert tensor.lines[2] == "process group t77 (TENSOR_MODEL_PARALLEL_GROUP)"
    assert others.lines[2] == "7 DATA_PARALLEL groups"
    assert (others.level, others.waits_for) == (2, (2,))


def test_what_is_left_out_is_counted(monkeypatch):
    whole = wait_groups(*thousand())
    monkeypatch.setattr(groups, "MOST_LEVELS", 1)
    cut = wait_groups(*thousand())
    assert len(cut.boxes) == 3
    assert (whole.ranks, whole.more_ranks) == (1023, 0)
    assert cut.ranks + cut.more_ranks == 1023
    assert cut.ranks == 127 + 7
