"""What the theory tells from lines alone: timeouts, silence, and the kernel beside them."""

import pytest

from log_lines import kernel, table, timeout, verdict
from ncclforensics.analysis import analyze

WATCHDOG = (
    "[rank{rank}]:[E820 10:10:00.596967190 ProcessGroupNCCL.cpp:607] [Rank {rank}] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
    "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds before "
    "timing out.\n"
)


def job(tmp_path, *calls):
    text = "".join(WATCHDOG.format(rank=r, seq=seq, op=op) for r, seq, op in calls)
    (tmp_path / "job.log").write_text(text)
    return analyze([str(tmp_path)])


def silent(tmp_path, dmesg):
    """Rank 3 says nothing, and its agent has to end it."""
    spoke = "".join(timeout(rank) for rank in range(3))
    ends = table((0, -6, 4000), (1, -6, 4001), (2, -6, 4002), (3, -15, 4003))
    (tmp_path / "job.log").write_text(spoke + ends)
    (tmp_path / "dmesg_gpu0001.log").write_text(dmesg)
    return analyze([str(tmp_path)])


def test_a_blocked_process_supports_its_absence(tmp_path):
    line = kernel("INFO: task python:4003 blocked for more than 120 seconds.")
    told = silent(tmp_path, line)
    assert verdict(told)[:2] == ("missing-rank", (3,))
    top = told.ranked.verdict
    assert top.confidence == "likely"
    assert "blocked" in top.explanation
    assert any("blocked" in cite.text for cite in top.evidence)


def test_a_healthy_kernel_says_nothing(tmp_path):
    told = silent(tmp_path, kernel("usb 1-1: new high-speed USB device"))
    assert verdict(told)[:2] == ("missing-rank", (3,))
    assert "blocked" not in told.ranked.verdict.explanation


@pytest.mark.parametrize(
    ("codes", "ranks"), [((-6, -6), (3,)), ((-6, -15), ()), ((-15, -6), ())]
)
def test_who_aborts_as_those_that_timed_out_waited_as_well(tmp_path, codes, ranks):
    """The last lines of rank 2 are lost; an agent ends rank 3, which did not abort.

    Where the agent ended one that had timed out as well, that tells nothing of rank 3.
    """
    spoke = timeout(0) + timeout(1)
    one, two = codes
    ends = table((0, -6, 4000), (1, one, 4001), (2, two, 4002), (3, -15, 4003))
    text = spoke + ends.replace("10:00:00", "10:10:01")
    (tmp_path / "job.log").write_text(text)
    told = analyze([str(tmp_path)])
    found = [f.ranks for _, f in told.ranked.findings if f.slug == "missing-rank"]
    assert found == ([ranks] if ranks else [])


BARRIER = (
    "[rank0]:[E820 10:10:00.893679011 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 2 "
    "failed to pass monitoredBarrier in 25000 ms\n"
)
REACHED = (
    "[rank1]:[E820 10:10:00.869542361 ProcessGroupGloo.cpp:67] Rank 1 successfully "
    "reached monitoredBarrier, but received errors while waiting for send/recv from "
    "rank 0. Please check rank 0 logs for faulty rank.\n"
)
CLOSED = (
    "[rank2]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [127.0.0.1]:24792\n"
)


@pytest.mark.parametrize(
    ("last", "slug"), [("10:10:20", "straggler"), ("10:09:30", "missing-rank")]
)
def test_who_comes_to_a_monitored_barrier_too_late_did_not_wait(tmp_path, last, slug):
    """It lost its peers, and its progress tells whether it was at work."""
    done = "2026-08-20 10:09:35,000 INFO [rank {}/3] tokenized 40 of 40 files\n"
    late = done.replace("10:09:35", last).replace("40 of 40", "170 of 171")
    for rank, text in enumerate((done + BARRIER, done + REACHED, late + CLOSED)):
        (tmp_path / f"rank{rank}.log").write_text(text.format(rank))
    assert verdict(analyze([str(tmp_path)]))[:2] == (slug, (2,))


def test_one_number_and_two_operations(tmp_path):
    calls = [(rank, 2070, "REDUCE") for rank in range(4)]
    told = job(tmp_path, *calls, (4, 2070, "ALLREDUCE"))
    assert verdict(told)[:2] == ("collective-mismatch", (4,))
    assert told.ranked.verdict.confidence == "likely"


AT = (
    "[rank{rank}]:[E820 10:10:00.604022580 ProcessGroupNCCL.cpp:679] Stack trace of "
    "the failed collective: \n#0 all_reduce from /usr/lib/python3/dist-packages/torch/"
    "distributed/distributed_c10d.py:2501\n#1 {function} from /job/{function}.py:57\n"
    "#2 train from /job/train.py:60\n"
)


def at(rank, function):
    call = WATCHDOG.format(rank=rank, seq=7, op="ALLREDUCE")
    return call + AT.format(rank=rank, function=function)


def test_one_number_at_two_places_shows_no_order_of_groups(tmp_path):
    ranks = "".join(at(rank, "step") for rank in (0, 1, 3))
    (tmp_path / "job.log").write_text(ranks + at(2, "sample"))
    told = analyze([str(tmp_path)])
    assert verdict(told)[:2] == ("rank-conditional-collective", (2,))
    slugs = {finding.slug for _, finding in told.ranked.findings}
    assert "call-order-deadlock" not in slugs


def test_two_watchdogs_in_two_calls_are_suspects(tmp_path):
    told = job(tmp_path, (0, 1505645, "_ALLGATHER_BASE"), (1, 1505766, "ALLGATHER"))
    assert {suspect.rank for suspect in told.ranked.suspects} == {0, 1}
    top = told.ranked.verdict
    assert top.slug == "timeout-masking" or top.confidence == "possible"


def outcome(tmp_path, text):
    (tmp_path / "rank0.log").write_text(text)
    return analyze([str(tmp_path)]).ranked.outcome


def test_what_waits_or_stands_is_never_said_to_be_well(tmp_path):
    for text in (
        "INFO 11-20 12:00:00 [shm_broadcast.py:466] No available shared memory "
        "broadcast block found in 60 seconds.\n",
        "[E ProcessGroupNCCL.cpp:988] Failed to retrieve NCCL_DESYNC_DEBUG report. "
        "Please file an issue. Error: INTERNAL ASSERT FAILED\n",
        'Thread 0x7FA6E7C01740 (idle): "MainThread"\n    wait (threading.py:302)\n',
    ):
        assert outcome(tmp_path, text) == "inconclusive", text


def test_ranks_that_ray_takes_back_are_preempted(tmp_path):
    line = (
        "(PreemptionWatcher pid=69362) PreemptionWatcher: drain detected - "
        "preempted_node_ids=['5ad7fa5dd64f'], preempted_ranks=[1, 3], deadline=178\n"
    )
    (tmp_path / "job.log").write_text(line)
    assert verdict(analyze([str(tmp_path)])) == ("preempted", (1, 3), ("5ad7fa5dd64f",))


def test_a_gloo_mesh_that_is_whole_is_well(tmp_path):
    line = "[Gloo] Rank {} is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n"
    text = line.format(0) + line.format(1)
    assert outcome(tmp_path, text) == "no-failure"
