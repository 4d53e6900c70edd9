"""An exit or an exception of which too little is left names nobody."""

import pytest

from log_lines import table

FAILED = (
    "E0801 13:23:11.366000 900 torch/distributed/elastic/multiprocessing/api.py:900] "
    "failed (exitcode: {code}) local_rank: 0 (pid: 77) of binary: /usr/bin/python\n"
)
HEAD = 'Traceback (most recent call last):\n  File "/job/train.py", line 3, in f\n'
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]\n"
)


def verdict(analysis):
    found = analysis.ranked.verdict
    return found and (found.slug, found.ranks)


@pytest.mark.parametrize(("code", "named"), [(3, True), (1, False)])
def test_code_1_is_that_of_every_exception_also_of_a_victims(analyzed, code, named):
    analysis = analyzed({"torchrun.log": FAILED.format(code=code)})
    assert (verdict(analysis) is not None) is named
    assert analysis.ranked.outcome == ("failure" if named else "inconclusive")


@pytest.mark.parametrize(("cut", "named"), [(0, False), (40, False)])
def test_an_error_about_a_peer_that_is_cut_is_no_error_of_its_own(analyzed, cut, named):
    text = HEAD + LOST
    analysis = analyzed({"rank_2.log": text[: len(text) - cut]})
    found = verdict(analysis)
    assert (found is not None and bool(found[1])) is named


def test_an_error_far_before_the_cut_is_whole(analyzed):
    text = HEAD + "ValueError: x\n" + "step\n" * 100 + "gpu0001:1:1 [0] NCCL IN"
    assert verdict(analyzed({"rank_2.log": text})) == ("crashed-rank", (2,))


def test_an_exception_whose_text_was_wrapped_away_is_nobodys(analyzed):
    wrapped = (
        'Traceback (most recent call last):\n  File "/job/tra\nin.py", line 3, in f\n'
    )
    analysis = analyzed({"rank_0.log": wrapped, "torchrun.log": FAILED.format(code=1)})
    assert verdict(analysis) is None


TAIL = '[rank3]:   File "/job/train.py", line 3, in f\n[rank3]: {}\n'
OTHER = "[rank1]: ValueError: x\n"


@pytest.mark.parametrize(
    ("tail", "named"),
    [
        (TAIL.format("RuntimeError: no such generator"), (3,)),
        (TAIL.format("AssertionError"), (3,)),
        # nobody says whose this is, or it tells of a peer that is gone
        (TAIL.replace("[rank3]: ", "").format("RuntimeError: no such generator"), None),
        (TAIL.format(LOST.strip()), None),
        # of a whole traceback the end is no second death
        (
            f"[rank1]: {HEAD.replace(chr(10) + ' ', chr(10) + '[rank1]:  ')}{OTHER}",
            (1,),
        ),
    ],
)
def test_torchs_excepthook_speaks_for_its_rank_without_the_head(analyzed, tail, named):
    found = verdict(analyzed({"job.log": tail}))
    if named is None:
        assert found is None or not found[1]
    else:
        assert found == ("crashed-rank", named)


LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/venv/bin/torchrun", line 8, in '
    "<module>\n    sys.exit(main())\n"
)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("ValueError: no such file", ("crashed-rank", (0,))),
        # of two nobody can say which was not caught
        ("ValueError: no such file\nKeyError: another", None),
        ("ValueError: rank 0 is done, but the other ranks are not", None),
    ],
)
def test_a_launchers_own_traceback_does_not_hide_the_last_words(analyzed, words, named):
    log = f"{words}\n{FAILED.format(code=1)}{LAUNCHER}"
    assert verdict(analyzed({"job.log": log})) == named


def test_an_exception_that_tells_of_other_ranks_is_no_death_of_its_own(analyzed):
    log = HEAD + "ValueError: rank 2 is done, but other ranks are not\n"
    assert verdict(analyzed({"rank_2.log": log})) is None


def test_a_launcher_of_another_kind_tells_who_crashed(analyzed):
    log = "ERROR:composer.cli.launcher:Rank 3 crashed with exit code -11.\n"
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (3,))


DYING = (
    "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with "
    "exception: CUDA error: an illegal memory access was encountered\n"
)
SEVERAL = (
    "gpu0001:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1000 - Init "
    "COMPLETE\ngpu0001:8:8 [1] NCCL INFO comm 0x2 rank 0 nranks 2 cudaDev 1 busId 2000 "
    "- Init COMPLETE\n"
)


@pytest.mark.parametrize(
    ("log", "ranks"),
    [
        (DYING, (1,)),
        (f"  what():  {DYING.partition('] ')[2]}", (1,)),
        # a rank in a group that is not told is no rank of the job
        (DYING + SEVERAL, ()),
    ],
)
def test_a_dying_watchdogs_rank_is_the_jobs_where_all_are_one_group(
    analyzed, log, ranks
):
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", ranks)


@pytest.mark.parametrize("name", ["", "torch.multiprocessing.spawn.ProcessExited"])
def test_a_child_of_spawn_that_was_killed_is_named(analyzed, name):
    log = f"{name}Exception: process 3 terminated with signal SIGKILL\n"
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (3,))


def test_what_nccl_says_of_a_peer_is_no_exception_of_the_ranks_own(analyzed):
    torn = HEAD + "ncclRemoteError: A call failed possibly due to a network error\n"
    assert verdict(analyzed({"rank_0.log": torn})) is None


LOSS = (
    "gpu0002:985:1002 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection "
    "closed by remote peer gpu0001.cluster<45074>\n"
    "[rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are "
    "taking the entire process down.\n"
)
ENDED = (
    "srun: error: gpu0001: task 0: Exited with exit code 1\n"
    "srun: error: gpu0002: task 1: Exited with exit code 134\n"
)


def test_a_task_that_ended_with_1_where_its_only_peer_lost_it(analyzed):
    found = analyzed({"job.log": ENDED + LOSS}).ranked
    assert (found.verdict.slug, found.verdict.ranks) == ("crashed-rank", (0,))
    # who lost somebody itself is no cause
    both = LOSS + LOSS.replace("gpu0002:", "gpu0001:").replace(
        "peer gpu0001", "peer gpu0002"
    )
    ranks = {
        rank
        for _, f in analyzed({"job.log": ENDED + both}).ranked.findings
        for rank in f.ranks
    }
    assert 0 not in ranks


@pytest.mark.parametrize(
    ("thrown", "named"),
    [("AssertionFailureException", True), ("c10::DistBackendError", False)],
)
def test_a_cpp_exception_is_of_the_only_rank_that_aborted(analyzed, thrown, named):
    log = (
        f"terminate called after throwing an instance of '{thrown}'\n"
        "gpu0001: rank 3 died from signal 6\n"
    )
    assert verdict(analyzed({"job.log": log})) == (
        ("crashed-rank", (3,)) if named else None
    )


@pytest.mark.parametrize(
    ("other", "named"),
    [("tasks 0-3: Terminated", (4, 5, 6, 7)), ("tasks 0-3: Killed", ())],
)
def test_all_tasks_of_one_host_that_were_killed_first(analyzed, other, named):
    log = f"srun: error: gpu0002: tasks 4-7: Killed\nsrun: error: gpu0001: {other}\n"
    found = analyzed({"job.log": log}).ranked.verdict
    assert (found.ranks if found else ()) == named


AGENT = "W1121 09:00:09.500000 900 torch/distributed/elastic/multiprocessing/api.py:1 "
CLOSING = (
    AGENT.replace(":1 ", ":1028] ") + "Sending process {} closing signal SIGTERM\n"
)
ENTRY = (
    "[{}]:\n  time      : 2026-11-21_09:00:09\n  host      : gpu0001\n"
    "  rank      : {} (local_rank: {})\n  exitcode  : {} (pid: {})\n"
    "  error_file: <N/A>\n  traceback : none\n"
)
PEER = "[rank{}]: RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:5\n"


HUNG = (
    "[rank0]: RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
    "waiting 1800000ms for recv operation to complete\n"
)


def torchrun(words, code, told=(710,)):
    """Print what torchrun does when rank 1 of two (pids 710, 711) ends with `code`."""
    closing = "".join(CLOSING.format(pid) for pid in told)
    others, first = ENTRY.format(1, 0, 0, -15, 710), ENTRY.format(0, 1, 1, code, 711)
    return (
        f"{words}{closing}{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n{others}"
        f"{'-' * 60}\nRoot Cause (first observed failure):\n{first}{'=' * 60}\n"
    )


@pytest.mark.parametrize("code", [1, -6])
def test_who_said_nothing_where_others_cry_was_no_victim(analyzed, code):
    log = {"train.log": torchrun(PEER.format(0), code)}
    assert verdict(analyzed(log)) == ("crashed-rank", (1,))


@pytest.mark.parametrize(
    "log",
    [
        # its words may be anywhere, as nobody's are here
        torchrun("", 1),
        # others timed out, and so may it
        torchrun(HUNG, 1),
        # it cries as well
        torchrun(PEER.format(0) + PEER.format(1), 1),
        # the agent told it to end, and had to use force
        torchrun(PEER.format(0), -9, (710, 711)),
    ],
)
def test_a_silent_end_may_be_a_victims(analyzed, log):
    found = verdict(analyzed({"train.log": log}))
    assert found is None or found[0] != "crashed-rank"


def test_a_tasks_words_are_its_ranks_where_each_task_is_one(analyzed):
    said = "".join(f"1: {line}\n" for line in (*HEAD.splitlines(), "ValueError: x"))
    ends = (
        "srun: error: gpu0001: task 1: Exited with exit code 1\n"
        "srun: error: gpu0001: tasks 0,2-3: Aborted (core dumped)\n"
    )
    assert verdict(analyzed({"slurm-1.out": said + ends})) == ("crashed-rank", (1,))
    # where a task starts torchrun, nobody knows whose they are
    agent = FAILED.format(code=1)
    found = verdict(analyzed({"slurm-1.out": said + agent + ends}))
    assert found is None or found[1] != (1,)


def test_a_rankless_cuda_error_is_that_of_the_only_rank_that_aborted(analyzed):
    words = (
        "terminate called after throwing an instance of 'c10::AcceleratorError'\n"
        "  what():  CUDA error: misaligned address\n"
    )
    one = analyzed({"bench.log": words + table((6, -6, 4006))}).ranked.verdict
    assert (one.slug, one.ranks) == ("crashed-rank", (6,))
    two = analyzed({"bench.log": words + table((6, -6, 4006), (2, -6, 4002))})
    assert two.ranked.verdict.ranks == ()


def test_a_fatal_error_of_the_interpreter_is_its_own_but_for_an_abort(analyzed):
    fatal = "[rank2]:Fatal Python error: {}\n"
    own = analyzed({"a.log": fatal.format("PyThreadState_Get: the GIL is released")})
    assert own.ranked.verdict.slug == "crashed-rank"
    aborted = analyzed({"a.log": fatal.format("Aborted")})
    assert aborted.ranked.verdict is None


def test_rays_table_of_workers_tells_whose_process_crashed(analyzed):
    head = "(TrainController pid=19)"
    workers = "".join(
        f"{head} - (ip=10.2.0.{r // 2}, pid={70 + r % 2}) world_rank={r}, "
        f"local_rank={r % 2}, node_rank={r // 2}\n"
        for r in range(4)
    )
    crash = (
        "(RayTrainWorker pid=70, ip=10.2.0.1) Fatal Python error: Segmentation fault\n"
    )
    raised = (
        "Traceback (most recent call last):\n"
        '  File "/job/main.py", line 90, in <module>\n    trainer.fit()\n'
        "ray.train.base_trainer.TrainingFailedError: Training failed due to worker "
        "errors:\n"
    )
    verdict = analyzed({"driver.log": workers + crash + raised}).ranked.verdict
    assert (verdict.ranks, verdict.hosts) == ((2,), ("10.2.0.1",))
    assert "Segmentation fault" in verdict.headline
