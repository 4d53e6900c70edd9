"""Finding a place: where it opens, who waits for whom, search, time, zoom."""

from ncclforensics.report.timeline.start_position import opening_place
from ncclforensics.report.timeline.states import text
from ncclforensics.report.timeline.timeline import Shown
from ncclforensics.tui.model.clock import clock
from ncclforensics.tui.model.details import place
from ncclforensics.tui.model.scale import BySequence, ByTime
from ncclforensics.tui.model.search import search
from ncclforensics.tui.model.view import view
from ncclforensics.tui.model.waits import steps


def test_it_opens_on_the_culprit_at_the_failing_call(fixture_timeline):
    for name, rank, kind, seq in (
        ("torch-chain", 1, "TP", 3),
        ("torch-missing-rank-two-hosts", 6, "default_pg", 5),
        ("torch-collective-mismatch", 3, "default_pg", 5),
    ):
        timeline, report = fixture_timeline(name)
        row, col = opening_place(timeline, report)
        assert timeline.ranks[row] == rank
        assert timeline.columns.kind_of(col).name == kind
        assert timeline.columns.numbers[col] == seq


def test_without_calls_it_opens_on_the_line_that_accuses(fixture_timeline):
    timeline, report = fixture_timeline("nccl-docker0")
    row, col = opening_place(timeline, report)
    assert timeline.ranks[row] == 2
    assert timeline.columns.messages[col] == "nccl.bootstrap.using"


def test_the_chain_of_waits_ends_at_the_rank_that_waits_for_nobody(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    found = steps(timeline, 3)
    assert [(step.depth, step.rank) for step in found] == [
        (0, 1),
        (0, 3),
        (1, 2),
        (2, 0),
        (3, 1),
    ]
    assert [step.kind for step in found] == ["TP", "DP", "PP", "TP", "TP"]
    assert found[0].text == "this leads to rank 1"
    assert any("rank 0 waits for rank 1" in step.text for step in steps(timeline, 1))


def test_ranks_that_wait_for_each_other_end_the_chain(fixture_timeline):
    timeline, _ = fixture_timeline("torch-call-order-deadlock")
    found = steps(timeline, timeline.ranks[0])
    assert 1 < len(found) < 50
    assert any("(a circle)" in step.text for step in found)
    assert not any("leads to" in step.text for step in found)


def test_a_chain_leads_to_nobody_whose_evidence_is_lost(fixture_timeline):
    timeline, _ = fixture_timeline("torch-missing-rank-dump-lost")
    found = steps(timeline, timeline.ranks[0])
    assert [step.text for step in found][1:] == ["rank 2 unseen: no evidence of it"]


def test_search_finds_hosts_log_lines_and_functions(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    assert [row for row, _ in search(timeline, "GPU0001")] == [0, 1, 2, 3]
    assert {row for row, _ in search(timeline, "timed out")} == {0, 2, 3}
    kinds = {
        timeline.columns.kind_of(col).name
        for _, col in search(timeline, "reduce_gradients")
    }
    assert "TP" in kinds
    assert search(timeline, "no such word") == []


def test_by_time_a_rank_waits_until_it_exits(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    found = clock(timeline)
    bucket = (found.last - found.first) // 40 + 1
    drawn = [
        text(cells)
        for cells in found.paint(timeline, [1, 3, 0], found.first, bucket, 41)
    ]
    assert "X" not in drawn[2]
    assert drawn[0].count("X") > 30
    assert drawn[0].rstrip().endswith("E")
    assert drawn[1].count("w") > 30
    assert drawn[1].rstrip().endswith("E")


def test_by_time_a_straggler_starts_later(fixture_timeline):
    timeline, _ = fixture_timeline("torch-straggler")
    found = clock(timeline)
    bucket = (found.last - found.first) // 40 + 1
    first, late = (
        text(cells) for cells in found.paint(timeline, [0, 2], found.first, bucket, 41)
    )
    assert first.startswith("www")
    assert late.index("L") > 5


def test_what_is_on_screen_is_a_part_of_the_whole(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    found = clock(timeline)
    bucket = (found.last - found.first) // 40 + 1
    (whole,) = found.paint(timeline, [3], found.first, bucket, 41)
    (part,) = found.paint(timeline, [3], found.first + 10 * bucket, bucket, 5)
    assert part == whole[10:15]


def test_zooming_out_hides_no_failure(thousand):
    scale = BySequence(thousand.axis(None))
    row = thousand.cells(thousand.row_of(617))
    for _ in range(6):
        scale = scale.zoomed(-1)
        assert "X" in text(scale.cells(row, 0, scale.size))
    assert scale.size < 10
    assert scale.fitted(500).per == 1


def test_zoom_by_time_keeps_to_the_span(thousand):
    scale = ByTime(clock(thousand), 1).fitted(100)
    assert scale.size <= 100
    assert scale.zoomed(1).bucket == scale.bucket // 2
    assert scale.cell(scale.clock.last + 10**12) == scale.size - 1


def test_only_what_is_asked_for_is_made(thousand, monkeypatch):
    shown = view(thousand, Shown(fold=False), BySequence(thousand.axis(None)))
    made = []
    cells = type(thousand).cells
    monkeypatch.setattr(
        type(thousand), "cells", lambda self, row: made.append(row) or cells(self, row)
    )
    drawn = shown.cells(range(600, 620), 150, 10)
    assert made == list(range(600, 620))
    assert [len(line) for line in drawn] == [10] * 20


def test_details_put_the_users_frame_first_and_the_other_ranks_beside(fixture_timeline):
    timeline, _ = fixture_timeline("torch-chain")
    col = timeline.columns.find("TP", 3)
    told = [line for _, line in place(timeline, 0, [0], col)]
    at = told.index("stack, your frame first")
    assert told[at + 1].strip().startswith("/job/torch_faults.py")
    beside = told[told.index("the same call on all ranks") + 1 :]
    assert beside[0].strip().startswith("0: all_reduce [1024] Float")
    assert beside[1].strip().startswith("1: no such call")


def test_no_control_character_of_a_log_reaches_the_screen(analyzed):
    from ncclforensics.report.timeline.build import build

    line = "gpu1:7:7 [0] NCCL INFO Bootstrap : Using eth0\x1b[31m:10.0.0.1<0>\x07\n"
    found = analyzed({"rank_0.log": line * 3, "rank_1.log": line * 3})
    timeline = build(found.frames, found.report)
    for col in range(len(timeline.columns.merged)):
        for _, told in place(timeline, 0, [0], col):
            assert told.isprintable()
