"""A summary with nothing but exit codes says who ended first, and accuses nobody."""

from log_lines import table

SLURM = (
    "srun: error: gpu0002: task 5: Exited with exit code 1\n"
    "srun: Terminating StepId=123.0\n"
    "srun: error: gpu0001: tasks 0-3: Terminated\n"
)
TORCHRUN = table((1, 1, 501), (0, -15, 500), (2, -15, 502), (3, -15, 503))


def told(analysis):
    ranked = analysis.ranked
    assert (ranked.outcome, ranked.verdict) == ("inconclusive", None)
    return {s.rank: s for s in ranked.suspects}


def test_the_rank_that_no_agent_ended_is_suspected(analyzed):
    suspects = told(analyzed({"torchrun.log": TORCHRUN}))
    assert set(suspects) == {1}
    assert suspects[1].host == "gpu0001"
    assert suspects[1].why == (
        "ended first with exit code 1, 3 ranks after it; its own output is not here"
    )
    cited = TORCHRUN.splitlines()[suspects[1].evidence[0].line - 1]
    assert cited.startswith("  exitcode  : 1")  # in rank 1's entry


def test_so_is_the_one_of_srun(analyzed):
    suspects = told(analyzed({"slurm.out": SLURM}))
    assert set(suspects) == {5}
    assert (suspects[5].host, suspects[5].weight) == ("gpu0002", 0.5)


def test_so_is_a_child_of_mp_spawn_whose_traceback_is_cut(analyzed):
    text = "Exception: \n\n-- Process 5 terminated with the following error:\nTraceback"
    suspects = told(analyzed({"job.log": text}))
    assert set(suspects) == {5}


def test_so_is_a_worker_of_vllm_that_its_engine_lost(analyzed):
    text = "ERROR 10-15 08:32:29 [multiproc_executor.py:154] Worker proc VllmWorker-3 "
    text += "died unexpectedly, shutting down executor.\n"
    assert set(told(analyzed({"engine.log": text}))) == {3}


def test_where_its_output_is_here_that_is_not_said_to_be_missing(analyzed):
    files = {"torchrun.log": TORCHRUN, "rank_1.log": "[rank1]: step 3 loss 2.5\n"}
    assert "output" not in told(analyzed(files))[1].why


def test_of_several_at_once_none_is_first(analyzed):
    both = table((1, 1, 501), (0, 1, 500))
    suspects = told(analyzed({"torchrun.log": both}))
    assert [(s.rank, s.weight) for s in suspects.values()] == [(0, 0.333), (1, 0.333)]


def test_nobody_is_suspected_of_a_job_that_ended_well(analyzed):
    found = analyzed({"rank_1.log": "[rank1]: step 3 loss 2.5\n"})
    assert (found.ranked.outcome, found.ranked.suspects) == ("no-failure", ())


def test_the_first_failure_of_a_cut_table_is_the_first_suspect(analyzed):
    """The root entry stands last; what the agent killed later is no suspect."""
    rows = table((0, 1, 500), (3, 1, 503), (2, -9, 502), (1, -15, 501))
    head, _, tail = rows.partition("Root Cause")
    late = head.replace("10:00:00", "10:00:31").replace("10:00:31", "10:00:00", 1)
    cut = late + "Root Cause" + tail.partition("  exitcode")[0]
    cut = cut.replace("org/docs\n", "org/docs/stable/elastic/errors.html\n")
    suspects = told(analyzed({"torchrun.log": cut}))
    assert list(suspects) == [0, 3]
    assert "a code that is cut off, 2 ranks after it" in suspects[0].why


PADDLE = (
    "ERROR 2026-11-20 12:00:00,123 launch_utils.py:584] ABORT!!! Out of all 8 trainers, "
    "the trainer process with rank=[{}] was aborted. Please check its log.\n"
)


def test_the_ranks_that_paddle_found_dead_are_suspected(analyzed):
    suspects = told(analyzed({"launch.log": PADDLE.format("2, 5")}))
    assert {rank: s.weight for rank, s in suspects.items()} == {2: 0.333, 5: 0.333}
    assert suspects[2].why.startswith("ended first with a code that is not told")
    assert not analyzed({"launch.log": PADDLE.format("")}).ranked.suspects


def test_what_paddles_launcher_raises_is_no_crash_of_a_rank(analyzed):
    raised = (
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.7/site-packages/paddle/distributed/utils.py", line 25, '
        "in terminate_local_procs\n    p.proc.join(timeout=1)\n"
        "AttributeError: 'Popen' object has no attribute 'join'\n"
    )
    assert list(told(analyzed({"launch.log": raised + PADDLE.format("3")}))) == [3]
