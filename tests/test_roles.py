"""What is never a root by itself: echoes that read like a cause."""

import pytest

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:30:05
  host      : gpu0001
  rank      : 3 (local_rank: 3)
  exitcode  : {code} (pid: 30505)
  error_file: <N/A>
  traceback : Signal {signal} received by PID 30505
============================================================
"""
GROUP = "[PG ID 0 PG GUID 0(default_pg) Rank 0]"
OBSERVED = (
    f"[rank0]:[E1120 11:24:34.404000000 ProcessGroupNCCL.cpp:1895] {GROUP} Received a "
    "dump signal due to a collective timeout from rank 5 and we will try our best to "
    "dump the debug info. Last enqueued NCCL work: 41, last completed NCCL work: 40."
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes "
    "used across ranks, the order of collectives is not same for all ranks or the "
    "scheduled collective, for some reason, didn't run. Additionally, this can be "
    "caused by GIL deadlock or other reasons such as network errors or bugs in the "
    "communications library (e.g. NCCL), etc.\n"
)
OWN_ABORT = (
    "[rank3]:[E1120 10:30:01.833621509 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, "
    "NumelIn=1024, NumelOut=1024, Timeout(ms)=1800000) ran for 1800000 milliseconds "
    "before timing out.\n[rank3]:[E1120 10:30:02.933621509 ProcessGroupNCCL.cpp:706] "
    "[Rank 3] To avoid data inconsistency, we are taking the entire process down.\n"
)
ALONE = {
    "torchrun's root cause is only the first that it saw": {
        "torchrun.log": TABLE.format(code=-6, signal="6 (SIGABRT)")
    },
    "the agent's SIGTERM": {"torchrun.log": TABLE.format(code=-15, signal="15")},
    "the first that reported, and advice": {"rank_0.log": OBSERVED},
    "a victim's own SIGABRT": {
        "rank_3.log": OWN_ABORT,
        "torchrun.log": TABLE.format(code=-6, signal="6 (SIGABRT)"),
    },
}


@pytest.mark.parametrize("files", ALONE.values(), ids=ALONE)
def test_an_echo_alone_accuses_nobody(analyzed, files):
    found = analyzed(files)
    assert found.report.outcome == "inconclusive"
    assert all(not f.culprits.ranks for f in found.report.findings)
    assert found.report.not_checked


def test_a_kill_without_a_killer_is_no_more_than_possible(analyzed):
    found = analyzed({"torchrun.log": TABLE.format(code=-9, signal="9 (SIGKILL)")})
    assert {f.confidence for f in found.report.findings} <= {"possible"}


def test_a_thousand_timeouts_are_one_line(analyzed):
    line, _ = OWN_ABORT.splitlines()
    others = [rank for rank in range(1024) if rank not in (617, 3)]
    text = "".join(
        line.replace("[rank3]", f"[rank{rank}]").replace("Rank 3", f"Rank {rank}")
        + "\n"
        for rank in others
    )
    found = analyzed({"job.log": text})
    (step,) = [s for s in found.report.chain if "watchdog.timeout" in s.text]
    assert (step.count, step.ranks_folded) == (1022, "0-2,4-616,618-1023")
