"""What a platform says of a job as a whole: completed, killed, not started, lost."""

import pytest

from log_lines import table, verdict

RETRY = (
    "[rank1]:[W606 10:00:19.726620347 TCPStore.cpp:144] [c10d] TCP client failed to "
    "connect/validate to host gpu-a:29500 - retrying (try=0, timeout=600000ms, "
    "delay=77ms): The client socket has failed to connect\n"
)
PENDING = (
    "19m  Warning  FailedScheduling  pod/llm-worker-1  0/12 nodes are available: "
    "12 Insufficient nvidia.com/gpu.\n"
)
DONE = "4m  Normal  Completed  job/llm  Job completed\n"
WORDS = "storage: error: cannot reach the bucket\n"


@pytest.mark.parametrize("text", [PENDING, RETRY + WORDS])
def test_a_job_that_its_platform_calls_completed_did_not_fail(analyzed, text):
    files = {"events.txt": text + DONE, "worker-1.log": RETRY + "rank 1 done\n"}
    assert analyzed(files).ranked.outcome == "no-failure"


@pytest.mark.parametrize("text", [PENDING, RETRY + WORDS])
def test_without_that_word_nobody_knows(analyzed, text):
    assert analyzed({"events.txt": text}).ranked.outcome != "no-failure"


def test_a_process_that_ended_badly_outweighs_it(analyzed):
    files = {"events.txt": DONE, "agent.log": table((1, -11, 4001))}
    assert analyzed(files).ranked.outcome != "no-failure"


BLOCK = "No available shared memory broadcast block found in 60 seconds.\n"
SERVES = "INFO 11-20 12:00:{} [loggers.py:123] Engine 000: Avg generation throughput: "


@pytest.mark.parametrize(
    ("speed", "outcome"), [("96.4", "no-failure"), ("0.0", "inconclusive")]
)
def test_an_engine_that_makes_tokens_got_over_a_wait(analyzed, speed, outcome):
    later = "".join(f"{SERVES.format(s)}{speed} tokens/s\n" for s in range(10, 15))
    assert analyzed({"vllm.log": BLOCK + later}).ranked.outcome == outcome


STEPS = "".join(
    f"[2026-11-20T12:00:{s}.000000Z] 3c1f [rank=0] || INFO: root: batch {s} loss 1.9\n"
    for s in range(10, 40)
)
KILL = (
    "[2026-11-20T12:00:41.000000Z]          || INFO: Experiment 318 was killed by user "
    "ada (POST /api/v1/experiments/318/kill)\n"
)


def test_a_user_who_kills_an_experiment_cancelled_it(analyzed):
    told = analyzed({"trial.txt": STEPS + KILL + RETRY})
    assert verdict(told)[:2] == ("cancelled", ())
    assert "ada" in told.ranked.verdict.headline
    assert not analyzed({"trial.txt": STEPS}).ranked.verdict


SRUN = "srun: error: gpu0003: task 2: Exited with exit code {}\n"
ABSENT = "slurmstepd: error: execve(): torchrun: No such file or directory\n"
GAVE_UP = (
    "Traceback (most recent call last):\n"
    '  File "/opt/env/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
    "srun: error: gpu0001: task 0: Exited with exit code 1\n"
)


def test_the_node_that_does_not_find_its_program_did_not_come(analyzed):
    told = analyzed({"slurm-7.out": ABSENT + SRUN.format(2) + GAVE_UP})
    assert verdict(told)[0] == "rendezvous-failed"
    assert told.ranked.verdict.hosts == ("gpu0003",)
    assert all(f.slug != "crashed-rank" for _, f in told.ranked.findings)


def test_an_exit_for_another_reason_is_no_absent_program(analyzed):
    told = analyzed({"slurm-7.out": ABSENT + SRUN.format(9) + GAVE_UP})
    assert told.ranked.verdict.hosts == () or told.ranked.verdict.slug == "crashed-rank"


LOST = (
    "srun: error: Node failure on gpu0003\n"
    "slurmstepd: error: *** STEP 7.0 ON gpu0001 CANCELLED AT 2026-11-20T12:00:00 DUE "
    "TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)
ENDED = "srun: error: gpu000{}: tasks {}: Terminated\n"


AGENT = (
    "W1120 11:10:09.120000 41000 torch/distributed/run.py:766] Setting OMP_NUM_THREADS "
    "environment variable for each process to be 1 in default\n"
)


@pytest.mark.parametrize(
    ("tasks", "head", "ranks"),
    [
        (("0-3", "4-7", "12-15"), "", (8, 9, 10, 11)),
        (("0-3", "4-7", "10-13"), "", ()),  # no whole node is left over
        (("0", "1", "3"), AGENT, ()),  # one task a node: an agent's, not a rank's
    ],
)
def test_the_tasks_that_other_nodes_leave_over_were_on_the_lost_one(
    analyzed, tasks, head, ranks
):
    ends = "".join(map(ENDED.format, (1, 2, 4), tasks))
    told = analyzed({"slurm-7.out": head + LOST + ends}).ranked.verdict
    assert (told.slug, told.ranks, told.hosts) == ("node-lost", ranks, ("gpu0003",))


START = "(TorchTrainer pid=900) - (node_id=9f1c, ip=10.80.0.9, pid={}) world_rank={}, "
RAISED = (
    "2026-11-20 14:28:16,312\tERROR tune_controller.py:1331 -- Trial task failed\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/ray/train/_internal/utils.py", line 57, in check_for_failure\n'
    "    ray.get(object_ref)\n"
    "ray.exceptions.RayTaskError(ValueError): ray::_RayTrainWorker__execute.get_next()"
    " (pid=703, ip=10.80.0.9, actor_id=4be1, repr=<RayTrainWorker>)\n"
    '  File "/home/ray/train.py", line 41, in collate\n'
    "    raise ValueError('odd image')\n"
    "ValueError: odd image\n"
)


def test_the_task_whose_exception_ray_prints_raised_it(analyzed):
    starts = "".join(
        START.format(700 + rank, rank) + f"local_rank={rank}, node_rank=0\n"
        for rank in range(4)
    )
    told = analyzed({"driver.log": starts + RAISED})
    assert verdict(told)[:2] == ("crashed-rank", (3,))
    assert "odd image" in told.ranked.verdict.headline
    peer = RAISED.replace("ValueError", "ActorDiedError")
    assert verdict(analyzed({"driver.log": starts + peer}))[0] != "crashed-rank"
