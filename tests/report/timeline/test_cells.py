"""Cells say what each rank did in each call, and what nobody knows."""

import polars as pl
import pytest

from ncclforensics.report.timeline.states import (
    ABSENT,
    BLANK,
    DONE,
    STATES,
    WAITING,
    occurring,
    text,
)
from ncclforensics.report.timeline.timeline import Shown

TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"


def cells(timeline, rank, kind=None):
    row = timeline.row_of(rank)
    return text(bytes(timeline.cells(row)[col] for col in timeline.axis(kind)))


def test_each_state_has_a_character_of_its_own():
    assert len({state.char for state in STATES}) == len(STATES)
    assert all(len(state.char) == 1 for state in STATES)


def test_a_chain_reads_from_rank_to_rank_across_groups(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    assert cells(timeline, 0, "TP")[:3] == "··w"
    assert cells(timeline, 1, "TP")[:3] == "··X"
    assert cells(timeline, 0, "PP")[:3] == "··x"
    assert cells(timeline, 2, "PP")[:3] == "··w"
    assert cells(timeline, 2, "DP")[:3] == "··x"
    assert cells(timeline, 3, "DP")[:3] == "··w"


def test_all_groups_together_stand_in_the_order_of_the_job(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    kinds = [timeline.columns.kind_of(col).name for col in timeline.axis(None)]
    assert kinds[0] == "default_pg"
    for kind in ("TP", "PP", "DP"):
        own = [
            col
            for col in timeline.axis(None)
            if timeline.columns.kind_of(col).name == kind
        ]
        assert own == sorted(own)


def test_the_odd_operation_is_marked_on_the_rank_that_called_it(fixture_timeline):
    timeline, report = fixture_timeline("torch-collective-mismatch")
    assert report.verdict.culprits.ranks == (3,)
    assert cells(timeline, 3, "default_pg")[4] == "#"
    assert cells(timeline, 0, "default_pg")[4] == "w"


def test_a_straggler_is_marked_where_it_came_late(fixture_timeline):
    timeline, _ = fixture_timeline("torch-straggler")
    assert cells(timeline, 2, "default_pg")[4] == "L"
    assert [cells(timeline, rank, "default_pg")[3] for rank in range(4)] == ["·"] * 4


def test_a_rank_whose_dump_was_lost_is_unseen_and_not_absent(fixture_timeline):
    timeline, _ = fixture_timeline("torch-missing-rank-dump-lost")
    assert cells(timeline, 2) == "?????"
    assert cells(timeline, 0) == "····w"


def test_a_healthy_job_shows_no_failure(fixture_timeline):
    for name in ("torch-healthy", "torch-healthy-pipeline"):
        timeline, _ = fixture_timeline(name)
        for rank in timeline.ranks:
            assert set(cells(timeline, rank)) <= {"·", " "}


def test_logs_without_calls_become_a_column_per_message(fixture_timeline):
    timeline, _ = fixture_timeline("nccl-docker0")
    assert "nccl.bootstrap.using" in timeline.columns.messages
    col = timeline.columns.messages.index("nccl.bootstrap.using")
    assert cells(timeline, 2)[col] == "!"
    assert cells(timeline, 0)[col] == "·"


def test_of_a_thousand_ranks_one_is_absent_and_its_peers_wait(thousand):
    absent = [
        r
        for r in thousand.ranks
        if "X" in cells(thousand, r, "TENSOR_MODEL_PARALLEL_GROUP")
    ]
    assert absent == [617]
    waiting = [
        r
        for r in thousand.ranks
        if "w" in cells(thousand, r, "TENSOR_MODEL_PARALLEL_GROUP")
    ]
    assert waiting == [616, *range(618, 624)]


def test_a_ring_that_wrapped_leaves_unseen_calls_and_no_absent_ones(thousand):
    from ncclforensics.report.timeline.build import build
    from simulate_timeline import Job, collectives, frames, report

    job = Job(ranks=16, calls=40, culprit=9)
    calls = collectives(job, 0, 16)
    wrapped = calls.filter((pl.col("rank") != 3) | (pl.col("record_id") >= 30))
    timeline = build(frames(job, collectives=wrapped), report(job))
    shown = cells(timeline, 3, "TENSOR_MODEL_PARALLEL_GROUP")
    assert shown.startswith("?" * 20)
    assert "X" not in shown


@pytest.mark.parametrize("fold", [True, False])
def test_every_rank_stands_in_exactly_one_line(thousand, fold):
    for grouping in ("host", "process group", "position"):
        lines = thousand.lines(Shown(grouping=grouping, fold=fold))
        ranks = [rank for line in lines["ranks"] for rank in line]
        assert sorted(ranks) == thousand.ranks


def test_neighbours_that_look_alike_fold_and_the_odd_host_does_not(thousand):
    lines = thousand.lines(Shown())
    ranks = [(line[0], line[-1]) for line in lines["ranks"]]
    assert (0, 615) in ranks
    assert (616, 616) in ranks
    assert (617, 617) in ranks
    assert (618, 623) in ranks
    assert (624, 1023) in ranks


def test_position_puts_those_who_differ_on_top(thousand):
    lines = thousand.lines(Shown(grouping="position"))
    assert lines["ranks"][0].to_list() == [617]
    assert lines.height < 6


def test_what_gloo_retired_is_not_done_where_its_ranks_gave_it_up(fixture_timeline):
    timeline, _ = fixture_timeline("torch-crashed-rank")
    ends = timeline.calls.collect().filter(pl.col("seq") == 5)
    assert set(ends["retired"]) == {True, False}
    assert [cells(timeline, rank, "default_pg")[4] for rank in (0, 2, 3)] == ["w"] * 3


def test_who_the_verdict_names_is_absent_though_it_waits_as_well(fixture_timeline):
    timeline, report = fixture_timeline("torch-call-order-deadlock")
    named = report.verdict.culprits.ranks
    assert named == (0, 1)
    for rank in named:
        assert "X" in text(timeline.cells(timeline.row_of(rank)))


def test_the_states_that_occur_are_told_the_worst_first():
    rows = [bytes([BLANK, DONE, DONE, WAITING]), bytes([ABSENT, DONE])]
    assert [state.char for state in occurring(rows)] == ["X", "w", "·"]
    assert occurring([bytes([BLANK])]) == []
