"""Dumps of a job that runs accuse nobody; a proof of failure makes them count."""

import pytest

import judging
from ncclforensics.correlate.traces import call_summary

pytestmark = pytest.mark.usefixtures("trusted")


def late_dump(case, rank, seconds):
    """Let one rank dump earlier than the others."""
    ended = [end for end in case.job.runs[rank].ended if end is not None]
    case.cut[rank] = max(ended) - seconds
    return case


def test_a_dump_older_than_what_its_peers_finished_does_not_make_a_rank_absent(
    tmp_path,
):
    case = judging.played("finished")
    case = late_dump(case, 3, 5e-3)
    assert set(judging.sure(judging.analysis(case, tmp_path))) <= set(case.ranks)


def test_a_line_of_a_timeout_makes_the_same_absence_certain(tmp_path):
    case = judging.played("absent", 3)
    line = (
        "[rank0]:[E101 03:14:05.000000000 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=9999, OpType=ALLREDUCE, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600019 milliseconds before "
        "timing out.\n"
    )
    found = judging.analysis(case, tmp_path, lost_times=True)
    assert found.ranked.verdict.confidence == "possible"
    (tmp_path / "job.log").write_text(line)
    found = judging.analyze([str(tmp_path)])
    assert found.ranked.verdict.slug in case.classes
    assert found.ranked.verdict.ranks == tuple(case.ranks)
    assert found.ranked.verdict.confidence == "certain"


def test_calls_under_way_everywhere_are_no_failure(tmp_path):
    """If that can be told: without the times of files they may be those of a hang."""
    case = judging.played("healthy", 1)
    case.cut = [min(case.cut)] * len(case.cut)
    found = judging.analysis(case, tmp_path)
    assert found.ranked.outcome == "no-failure"
    found = judging.analysis(case, tmp_path, lost_times=True)
    assert judging.named(found) == (None, ())
    assert found.ranked.outcome == "inconclusive"


def test_a_call_that_all_joined_and_nobody_finishes_is_a_standstill(tmp_path):
    case = judging.played("late", 2)
    found = judging.analysis(case, tmp_path)
    assert judging.named(found) == ("straggler", tuple(case.ranks))


@pytest.mark.parametrize("fault", ["absent", "early"])
def test_of_a_culprit_without_a_dump_nothing_is_more_than_possible(fault, tmp_path):
    case = judging.played(fault, 4)
    found = judging.analysis(case, tmp_path, lost=case.ranks)
    assert judging.named(found) == ("crashed-rank", tuple(case.ranks))
    assert found.ranked.verdict.confidence == "possible"
    (culprit,) = case.ranks
    missing = [told.missing for told in found.ranked.not_checked]
    assert any(f"rank {culprit}" in words for words in missing)


@pytest.mark.parametrize("seed", range(4))
def test_calls_that_only_torn_dumps_leave_open_keep_the_verdict(seed, tmp_path):
    case = judging.played("absent", seed, tp=1, pp=1, dp=4, ep=1)
    judging.analysis(case, tmp_path)
    for rank in sorted(set(range(4)) - case.ranks)[:2]:
        file = tmp_path / f"nccl_trace_rank_{rank}"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    found = judging.analyze([str(tmp_path)])
    assert found.frames["sources"]["cut"].sum() == 2
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


@pytest.mark.parametrize(("seed", "emptied"), [(0, 15), (2, 9)])
def test_a_rank_whose_entries_are_lost_waits_if_its_dump_counts_open_calls(
    seed, emptied, tmp_path
):
    """It is neither absent, nor at work, nor is its Python stuck."""
    case = judging.played("absent", seed)
    case.mute = frozenset({emptied})
    found = judging.analysis(case, tmp_path)
    assert call_summary.emptied(found.frames).to_list() == [emptied]
    assert judging.named(found) == ("missing-rank", tuple(case.ranks))


def test_a_rank_without_entries_that_counts_no_open_call_is_not_taken_for_waiting(
    tmp_path,
):
    case = next(c for s in range(9) if (c := judging.played("gil", s)).mute)
    found = judging.analysis(case, tmp_path)
    assert call_summary.emptied(found.frames).is_empty()
    assert judging.named(found) == ("gil-deadlock", tuple(case.ranks))


def test_dumps_of_different_moments_accuse_nobody(tmp_path):
    case = late_dump(judging.played("absent", 3, steps=4), 0, 0.0)
    waits = next(r for r in range(16) if r not in case.ranks)
    ended = [end for end in case.job.runs[waits].ended if end is not None]
    case.cut[waits] = max(ended) / 2
    assert set(judging.sure(judging.analysis(case, tmp_path))) <= set(case.ranks)


STATUS = (
    "[rank0]:[E101 03:14:05.000000000 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID "
    "0(default_pg) Rank 0] failure detected by watchdog at work sequence id: 9999 PG "
    "status: last enqueued work: 9999, last completed work: 9998\n"
)
GAVE_UP = (
    "[rank0]:[E101 03:14:05.000000000 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=9999, OpType={op}, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600019 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(
    ("op", "state"), [("ALLREDUCE", "unseen"), ("BROADCAST", "absent")]
)
def test_a_logged_completion_dates_the_dumps_of_the_others(tmp_path, op, state):
    """Members may finish a broadcast before others begin it: that proves nothing."""
    case = judging.played("finished")
    judging.analysis(case, tmp_path)
    (tmp_path / "rank_0.log").write_text(GAVE_UP.format(op=op) + STATUS)
    calls = judging.analyze([str(tmp_path)]).frames["calls"].to_dicts()
    (call,) = [c for c in calls if c["seq"] == 9999]
    assert call["waiting"] == [0]
    assert call[state]


def test_the_last_entry_of_a_cut_gloo_dump_is_not_its_rank_s_last_call(jobs):
    """Rank 2's dump is cut below its first call, which is retired: it did not fail."""
    folder = jobs.parent / "incidents" / "missing-rank-16" / "evidence"
    frames = judging.analyze([str(folder)]).frames
    calls = frames["calls"]
    assert calls.height
    assert "broadcast" not in set(calls["op"])
