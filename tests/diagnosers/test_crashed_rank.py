"""crashed-rank names who fell for a reason of its own, and no victim of it."""

import pytest

FRAME = '  File "/job/train.py", line 31, in check_loss\n    raise ValueError\n'


def traceback(rank, last):
    body = f"Traceback (most recent call last):\n{FRAME}{last}\n"
    return "".join(f"[rank{rank}]: {line}\n" for line in body.splitlines())


def table(*children):
    """torchelastic's table of (rank, exit code, what it says); the first is the root."""
    (rank, code, text), *others = children

    def block(number, rank, code, text):
        return (
            f"[{number}]:\n  time      : 2026-03-01_10:00:00\n  host      : gpu0001\n"
            f"  rank      : {rank} (local_rank: {rank})\n"
            f"  exitcode  : {code} (pid: {500 + rank})\n  error_file: <N/A>\n"
            f"  traceback : {text}\n"
        )

    failures = "".join(block(i, *child) for i, child in enumerate(others, 1))
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + "=" * 60
        + "\ntrain.py FAILED\n"
        + "-" * 60
        + f"\nFailures:\n{failures or '  <NO_OTHER_FAILURES>'}\n"
        + "-" * 60
        + f"\nRoot Cause (first observed failure):\n{block(0, rank, code, text)}"
        + "=" * 60
        + "\n"
    )


NOTHING = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)


def verdict(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


def test_the_rank_with_an_exception_of_its_own_is_named(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(2, "ValueError: loss is nan")
        + traceback(1, LOST)
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", (2,))
    assert "train.py:31 check_loss" in analysis.ranked.verdict.explanation


def test_torchruns_root_cause_is_not_believed(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(2, "ValueError: loss is nan")
        + table((0, 1, NOTHING), (2, -15, "Signal 15 (SIGTERM) received by PID 502"))
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))


@pytest.mark.parametrize(
    ("code", "name"), [(-11, "SIGSEGV"), (-7, "SIGBUS"), (-9, "SIGKILL")]
)
def test_a_signal_that_nobody_of_the_job_sends_is_named(analyzed, code, name):
    log = table((3, code, f"Signal {-code} ({name}) received by PID 503"))
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", (3,))
    assert analysis.ranked.verdict.confidence == "likely"
    assert name in analysis.ranked.verdict.headline


def test_the_agents_sigterm_accuses_nobody(analyzed):
    log = table((3, -15, "Signal 15 (SIGTERM) received by PID 503"))
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) is None
    assert analysis.ranked.outcome == "inconclusive"


def test_a_watchdogs_own_abort_is_a_victims(analyzed):
    head = "[rank3]:[E602 18:37:01.833621509 ProcessGroupNCCL.cpp:684] "
    log = (
        f"{head}[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
        "milliseconds before timing out.\n"
        f"{head}[Rank 3] To avoid data inconsistency, we are taking the entire process "
        "down.\n" + table((3, -6, "Signal 6 (SIGABRT) received by PID 503"))
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("timeout-masking", ())
    assert analysis.ranked.outcome == "inconclusive"


def test_several_bare_exit_codes_tell_nothing(analyzed):
    log = table((0, 1, NOTHING), (1, 1, NOTHING))
    analysis = analyzed({"job.log": log})
    assert (verdict(analysis), analysis.ranked.outcome) == (None, "inconclusive")


def test_one_unexplained_exit_among_victims_is_named(analyzed):
    log = (
        traceback(0, LOST)
        + traceback(1, LOST)
        + table((0, 1, NOTHING), (1, 1, NOTHING), (2, 3, NOTHING))
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,))
