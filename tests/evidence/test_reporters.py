"""The host that reports is told, also where its line names no peer, and not accused."""

import pytest

from log_lines import init, traceback, verdict

CLOSED = "NCCL WARN socketProgress: Connection closed by remote peer"
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
    "ProcessGroupNCCL.cpp:1691, remote process exited or there was a network error, "
    "NCCL version 2.19.3"
)
TELLING = {
    "nccl": ("gpu0042", f"gpu0042:1234:1299 [3] misc/socket.cc:58 {CLOSED}"),
    "ray": ("10.0.0.7", f"(TrainWorker pid=4121, ip=10.0.0.7) {LOST}"),
    "pod": ("train-a-worker-3", f"[pod/train-a-worker-3/pytorch] {LOST}"),
    "syslog": ("gpu0042", f"Nov 20 11:00:00 gpu0042 train.sh[4121]: {LOST}"),
    "other": ("gpu0042", "gpu0042:1:2 [3] proxy.cc:1495 NCCL WARN Accept failed"),
}


@pytest.mark.parametrize("form", TELLING)
def test_a_prefix_tells_who_reports(analyzed, form):
    host, line = TELLING[form]
    analysis = analyzed({"run.log": line + "\n"})
    report = analysis.report
    assert (report.outcome, report.verdict) == ("inconclusive", None)
    assert report.clue.text == f"{host} reports a failure, and may be its victim"
    assert report.clue.reporters == (host,)


def test_times_tell_who_reports_first(analyzed):
    form = "[2026-11-20 11:00:{at}] gpu000{n}:12:13 [0] misc/socket.cc:58 {text}\n"
    lines = [form.format(at=at, n=n, text=CLOSED) for n, at in enumerate((9, 20, 21))]
    lines = [line.replace(":9]", ":09]") for line in lines]
    [first, *_] = analyzed({"a.log": "".join(lines)}).report.clue.reporters
    assert first == "gpu0000"
    clue = analyzed({"a.log": "".join(lines)}).report.clue
    assert clue.text == (
        "gpu0000 reports first, 2 hosts after it, and may be its victim"
    )


def test_without_times_nobody_is_first(analyzed):
    form = "gpu000{n}:12:13 [0] misc/socket.cc:58 {text}\n"
    lines = "".join(form.format(n=n, text=CLOSED) for n in (1, 2))
    clue = analyzed({"a.log": lines}).report.clue
    assert clue.reporters == ("gpu0001", "gpu0002")
    assert clue.text == "gpu[0001-0002] report a failure, and may be its victims"


def test_a_host_that_is_only_called_localhost_is_none(analyzed):
    line = f"localhost:12:13 [0] misc/socket.cc:58 {CLOSED}\n"
    clue = analyzed({"a.log": line}).report.clue
    assert "localhost" not in clue.text.partition(":")[0]
    assert clue.reporters == ()


def test_who_is_named_by_a_cause_is_no_mere_reporter(analyzed):
    log = init(0, 2) + init(1, 2, "gpu0002") + traceback(1, "ValueError: nan")
    analysis = analyzed({"a.log": log})
    assert verdict(analysis) == ("crashed-rank", (1,), ("gpu0002",))
    assert analysis.report.clue is None


@pytest.mark.parametrize(
    ("name", "kept"), [("run.log", True), ("gpu0042/rank_3.log", False)]
)
def test_a_quote_keeps_the_prefix_where_no_path_tells_the_same(analyzed, name, kept):
    line = TELLING["nccl"][1]
    [seen] = [
        cite
        for link in analyzed({name: line + "\n"}).report.chain
        for cite in link.evidence
    ]
    assert (seen.text == line) is kept
    assert seen.text in line


def test_what_ray_tells_below_a_dead_actor_is_read_without_its_name(analyzed):
    text = (
        "The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: TrainWorker\n\tpid: 4121\n\tip: 10.0.0.7\n"
    )
    assert verdict(analyzed({"a.log": text}))[2] == ("10.0.0.7",)


def test_where_nothing_else_is_known_the_first_failing_line_is_quoted(analyzed):
    inside = '  File "/opt/torch/distributed/distributed_c10d.py", line 3715, in all_reduce\n'
    log = traceback(2, "RuntimeError: the transport is shut").replace(
        "[rank2]: RuntimeError", f"[rank2]: {inside}[rank2]: RuntimeError"
    )
    report = analyzed({"train.log": log}).report
    assert (report.outcome, report.verdict) == ("inconclusive", None)
    text = report.clue.text
    assert text.startswith("first sign of a failure, of rank 2: 'RuntimeError: the tr")
    assert text.endswith(f" (train.log:{len(log.splitlines())})")


def test_a_rank_of_a_group_is_quoted_as_one(analyzed):
    line = (
        "[PG ID 3 PG GUID 31(TENSOR_MODEL_PARALLEL_GROUP) Rank 1] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=55, OpType=ALLREDUCE, NumelIn=8,"
        " NumelOut=8, Timeout(ms)=600000) ran for 600044 milliseconds before timing out"
    )
    told = analyzed({"t.log": line + ".\n"}).report.clue.text
    assert "of group rank 1 of TENSOR_MODEL_PARALLEL_GROUP: 'Watchdog" in told


def test_without_a_failing_line_nothing_is_quoted(analyzed):
    assert analyzed({"t.log": init(0, 2)}).report.clue is None
