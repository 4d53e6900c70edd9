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


EVENT = "2m   Normal   {}   pod/llm-worker-3   {}\n"
SAID = {
    "preempted": (
        EVENT.format("Evict", "Pod is evicted, because of reclaim"),
        EVENT.format("Preempting", "Preempted in order to admit critical pod"),
        EVENT.format("ScaleDown", "deleting pod for node scale down"),
        "2m   Normal   EvictedDueToPreempted   workload/job-llm-1f2e   Preempted to "
        "accommodate a workload (UID: 7a3c, JobUID: 1b2c) due to prioritization\n",
        "Status:   Failed\nReason:   Terminated\nMessage:  Pod was terminated in "
        "response to imminent node shutdown.\n",
        "64m  Warning  SpotInterrupted  node/gpu0002  Spot interruption warning was "
        "triggered\n",
        '    "Code": "Server.SpotInstanceTermination",\n',
        "Task state is updated from RUNNING to FAILED on zones/us-central1-a/instances/7 "
        "due to Spot VM preemption with exit code 50001.\n",
        "I 11-20 12:00:00 controller.py:118] Cluster is preempted (status: INIT). "
        "Recovering...\n",
    ),
    "time-limit": (
        "Message:   Pod was active on the node longer than the specified deadline\n",
        EVENT.format(
            "PyTorchJobFailed",
            "PyTorchJob llm has failed because it was active longer than specified "
            "deadline",
        ),
        "message: The workload is deactivated due to exceeding the maximum execution "
        "time\n",
        '"statusReason": "Job attempt duration exceeded timeout",\n',
    ),
    "node-lost": (
        "    message: 'PodGC: node no longer exists'\n",
        '"methodName": "compute.instances.hostError",\n',
        '"statusReason": "Host EC2 (instance i-0c7b1f2a) terminated.",\n',
        "The node with client ID 5ad7fa5dd64f has been marked dead because the monitor "
        "has missed too many heartbeats from it.\n",
        "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check "
        "raylet.out for more information.\n",
        "(autoscaler +1m20s) Removing 1 nodes of type worker (lost contact with raylet).\n",
        "The actor is dead because its node has died. Node Id: 5ad7fa5dd64f\n",
    ),
    "host-oom": (
        "ClientError: Please use an instance type with more memory, or reduce the size "
        "of job data processed on an instance.\n",
        "Replicas low on memory: workerpool0. Specify a machine with larger memory.\n",
        '"reason": "OutOfMemoryError: Container killed due to memory usage",\n',
    ),
    "rendezvous-failed": (
        "WorkerGroupStartupTimeoutError: The worker group startup timed out after 30.0 "
        "seconds waiting for 8 workers. Potential causes include\n",
        "TimeoutError: Placement group creation timed out. Make sure your cluster either "
        "has enough resources\n",
        "2m  Normal  EvictedDueToPodsReadyTimeout  workload/job-llm  Exceeded the "
        "PodsReady timeout ml/job-llm\n",
        "llm-worker-3   0/1     UnexpectedAdmissionError   0          5m\n",
    ),
}


@pytest.mark.parametrize(
    ("slug", "text"), [(slug, text) for slug, texts in SAID.items() for text in texts]
)
def test_a_platform_says_why_it_ended_a_job_or_did_not_start_it(analyzed, slug, text):
    told = verdict(analyzed({"events.txt": text}))
    assert told[:2] == (slug, ())


@pytest.mark.parametrize(
    "text",
    [
        "(autoscaler +1m20s) Removing 1 nodes of type worker (idle).\n",
        '"methodName": "compute.instances.automaticRestart",\n',
        "5m  Normal  RegisteredNode  node/gpu0002  Node gpu0002 event: Registered Node "
        "gpu0002 in Controller\n",
        "I 11-20 12:00:00 controller.py:358] Cluster is preempted or failed (status: "
        "STOPPED). Recovering...\n",
        "The actor is dead because it was killed by `ray.kill`.\n",
        EVENT.format("Killing", "Stopping container pytorch"),
    ],
)
def test_what_a_platform_does_on_ordinary_days_is_no_reason(analyzed, text):
    assert verdict(analyzed({"events.txt": text})) in ("inconclusive", "no-failure")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "NodeDiedError: Task failed due to the node (where this task was running)  "
            "was dead or unavailable.\n\nThe node IP: 10.20.0.12, node ID: 5ad7fa5d\n",
            ("node-lost", "10.20.0.12"),
        ),
        (
            "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node "
            "gpu0002 is used (60.11 / 62.0 GB). The top 10 memory consumers are:\n",
            ("host-oom", "gpu0002"),
        ),
        (
            "Reason:   NodeLost\nMessage:  Node gpu0002 which was running pod llm-0 is "
            "unresponsive\n",
            ("node-lost", "gpu0002"),
        ),
        (
            "5m  Warning  Rebooted  node/gpu0002  Node gpu0002 has been rebooted, boot "
            "id: 0a1b2c3d\n",
            ("node-lost", "gpu0002"),
        ),
        (
            "D 11-20 12:00:00 backend_utils.py:1404] TPU VM sky-0001-head-tpu is in "
            "PREEMPTED state. Skipping IP query...\n",
            ("preempted", "sky-0001-head-tpu"),
        ),
    ],
)
def test_a_platform_names_the_node(analyzed, text, told):
    slug, host = told
    assert verdict(analyzed({"job.log": text})) == (slug, (), (host,))


def test_a_program_that_the_only_node_does_not_find_is_no_nodes_fault(analyzed):
    told = analyzed({"slurm-7.out": ABSENT + SRUN.format(2)})
    assert verdict(told) == ("rendezvous-failed", (), ())
    assert "gpu0003 did not find torchrun" in told.ranked.verdict.headline
    other = "srun: error: gpu0001: task 0: Terminated\n"
    told = analyzed({"slurm-7.out": ABSENT + SRUN.format(2) + other})
    assert told.ranked.verdict.hosts == ("gpu0003",)


LAME = (
    "I1120 12:00:00.690864 139871522604864 session_support.py:391] ShutdownHook: lame "
    "workers found: HeartbeatManager(/job:worker/replica:0/task:3/device:CPU:0)\n"
)


def test_a_tpu_worker_that_is_to_shut_down_was_preempted_most_likely(analyzed):
    told = analyzed({"tpu.log": "root@coordinator1:~# python train.py\n" + LAME})
    assert verdict(told) == ("preempted", (), ())  # the coordinator is not the one
    assert told.ranked.verdict.confidence == "likely"
