"""Lines that name nobody, and still say that all is not well."""

import pytest

from log_lines import init
from ncclforensics.analysis import analyze


def outcome(tmp_path, text):
    (tmp_path / "job.log").write_text(text)
    return analyze([str(tmp_path)]).report.outcome


def starts():
    return "".join(init(rank, 4, phase="START") for rank in range(4))


def test_a_communicator_that_everybody_waits_for_is_no_clean_bill(tmp_path):
    assert outcome(tmp_path, starts()) == "inconclusive"


@pytest.mark.parametrize(
    "later",
    [
        "".join(init(rank, 4) for rank in range(4)),
        "[2026-11-20 10:00:00] step 10/500 | loss 3.1\n",
    ],
)
def test_one_that_came_up_is(tmp_path, later):
    assert outcome(tmp_path, starts() + later) == "no-failure"


def test_a_rank_alone_waits_for_nobody(tmp_path):
    assert outcome(tmp_path, init(0, 1, phase="START")) == "no-failure"


def test_a_task_that_failed_is_one_whatever_it_failed_of(tmp_path):
    ended = "srun: error: gpu0001: task 3: Exited with exit code 1\n"
    assert outcome(tmp_path, ended) == "inconclusive"


def test_an_agent_that_ends_its_children_as_it_was_told_is_well(tmp_path):
    closing = (
        "W1120 10:00:00.123000 4242 torch/distributed/elastic/multiprocessing/api.py:900] "
        "Sending process 4300 closing signal SIGTERM\n"
    )
    assert outcome(tmp_path, f"step 10 loss 3.1\n{closing}") == "no-failure"


def test_dumps_cut_before_any_call_are_no_clean_bill(jobs, tmp_path):
    dumps = jobs / "torch-missing-rank-two-hosts" / "evidence" / "fr"
    for file in dumps.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:300])
    assert analyze([str(tmp_path)]).report.outcome == "inconclusive"


GONE = (
    "[rank1]:[W1229 22:06:38.558655037 TCPStore.cpp:106] [c10d] sendBytes failed on "
    "SocketImpl(fd=67, addr=[gpu0002]:36214, remote=[gpu0001]:29500): Broken pipe\n"
)
LEFT_OPEN = (
    "[rank0]:[W1229 22:06:37.079439421 ProcessGroupNCCL.cpp:1479] Warning: WARNING: "
    "destroy_process_group() was not called before program exit\n"
)
NO_IPV6 = (
    "[W socket.cpp:426] [c10d] The server socket cannot be initialized on [::]:29500 "
    "(errno: 97 - Address family not supported by protocol).\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # rank 0 ended, normally or not: nothing else is told
        (GONE, "inconclusive"),
        (LEFT_OPEN + GONE, "no-failure"),
        (LEFT_OPEN, "no-failure"),
        (NO_IPV6, "no-failure"),
    ],
)
def test_what_torch_warns_of_in_health(tmp_path, text, said):
    assert outcome(tmp_path, text) == said


def test_spawn_ends_its_children_only_where_one_failed(tmp_path):
    text = (
        "W1120 12:00:00.123000 41000 torch/multiprocessing/spawn.py:169] Terminating "
        "process 41011 via signal SIGTERM\n"
    )
    assert outcome(tmp_path, text) == "inconclusive"


def test_a_device_that_cannot_be_opened_where_another_one_serves(tmp_path):
    warn = (
        "gpu0001:4000:4100 [0] transport/net_ib.cc:117 NCCL WARN NET/IB : Unable to "
        "open device mlx5_1\n"
    )
    served = init(0, 4)
    assert "gpu0001:4000:" in served
    assert outcome(tmp_path, warn + served) == "no-failure"
    assert outcome(tmp_path, served + warn) == "inconclusive"


def test_a_log_that_ends_with_a_warning_nobody_knows_is_no_clean_bill(tmp_path):
    warn = "gpu0001:4000:4100 [0] foo.cc:7 NCCL WARN Something no version says\n"
    assert outcome(tmp_path, warn) == "inconclusive"
    assert outcome(tmp_path, init(0, 1) + warn) == "no-failure"
    assert outcome(tmp_path, warn + "epoch 1 of 9\n" * 9) == "no-failure"


STEPS = "".join(f"step {step} loss 2.5\n" for step in range(300))


@pytest.mark.parametrize(
    "line",
    [
        "[rank2]: [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqN",
        "Exception raised from checkTimeout at ../torch/csrc/x.cpp:618 (most recent ca",
        "ray.exceptions.RayTaskError(ActorDiedError): ray::T.fit() (pid=6, ip=10.0.0.6)",
        "[0]<stderr>:Horovod background loop uncaught exception: [x.cc:1] Read error",
        "*** Aborted at 1590748026 (unix time) try date ***",
        "Container rank 0 status failed cmd ['python3'] code 1 log log/workerlog.0",
        "Error pod train-worker-0 container pytorch exitCode: 1 terminated message:",
        "[2026-11-20T11:37:57.377] _job_complete: JobId=127441 WTERMSIG 9",
    ],
)
def test_below_the_steps_of_a_long_log_the_last_words_of_a_failure_count(
    tmp_path, line
):
    assert outcome(tmp_path, f"{STEPS}{line}\n") != "no-failure"


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-20T11:37:57.377] _job_complete: JobId=127441 WEXITSTATUS 0",
        "Pod train-worker-0 container pytorch exitCode: 0 terminated message:",
        "[repeated] a watchdog timeout of 600000 ms is set for collectives",
    ],
)
def test_words_like_them_do_not(tmp_path, line):
    assert outcome(tmp_path, f"{STEPS}{line}\n") == "no-failure"
