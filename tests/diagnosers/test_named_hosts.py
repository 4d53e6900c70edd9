"""Which host is named, where the line of the failure does not name it."""

import pytest

from log_lines import timeout, verdict

NODES = """NAME      STATUS     ROLES    AGE   VERSION
gpu0001   Ready      <none>   21m   v1.30.1
gpu0002   {}   <none>   21m   v1.30.1
"""
POD = "llm-worker-3   1/1   Terminating   0   20m   10.42.0.6   gpu0002   <none>   <none>\n"
XID = "[Wed Apr 10 11:29:39 2024] NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
DEAD = (
    "2026-11-20 12:00:00,741 WARNING worker.py:1228 -- The node with node id: {} and ip: "
    "{} has been marked dead because the detector has missed too many heartbeats from it.\n"
)
PRESSURE = (
    "(raylet) [2026-11-20 12:00:00,206 E 293463 293463] (raylet) node_manager.cc:3277: 2 "
    "Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due "
    "to other reasons at{}node (ID: 7789f87b78d161ae, IP: 10.20.0.12) over the last time "
    "period.\n"
)
SRUN = """srun: job 50917 queued and waiting for resources
srun: job 50917 has been allocated resources
slurmstepd: error: Detected 1 oom_kill event in StepId=50917.0. Some of the step tasks have been OOM Killed.
srun: error: gpu0002: task 0: Out Of Memory
srun: Terminating StepId=50917.0
"""


def test_a_node_that_is_not_ready_is_possible_and_likely_with_its_pod(analyzed):
    text = NODES.format("NotReady")
    for pods, confidence in (("", "possible"), (POD, "likely")):
        analysis = analyzed({"kubectl.txt": text + pods})
        assert verdict(analysis)[::2] == ("node-lost", ("gpu0002",))
        assert analysis.ranked.verdict.confidence == confidence


def test_ready_nodes_name_nobody(analyzed):
    analysis = analyzed({"kubectl.txt": NODES.format("Ready   ") + POD})
    assert analysis.ranked.verdict is None


@pytest.mark.parametrize("prompt", ["root@{}:~# ", "[root@{} ~]# "])
def test_a_prompt_names_the_host_of_its_file(analyzed, prompt):
    text = prompt.format("node7") + "dmesg -T\n" + XID
    assert verdict(analyzed({"paste.txt": text}))[2] == ("node7",)


def test_each_prompt_names_the_host_of_its_own_output(analyzed):
    text = "".join(f"root@{host}:~# dmesg -T\n" + XID for host in ("node7", "node8"))
    assert verdict(analyzed({"paste.txt": text}))[2] == ("node7", "node8")


def test_nodes_that_ray_marks_dead_are_named_by_their_address(analyzed):
    text = DEAD.format("1fc1", "10.20.0.12") + DEAD.format("8d2c", "10.20.0.13")
    analysis = analyzed({"driver.log": text})
    assert verdict(analysis)[::2] == ("node-lost", ("10.20.0.12", "10.20.0.13"))


@pytest.mark.parametrize("gap", [" ", " \n", " " * 40 + "\n"])
def test_the_node_of_ray_may_stand_on_the_next_line(analyzed, gap):
    analysis = analyzed({"driver.log": PRESSURE.format(gap)})
    assert verdict(analysis)[::2] == ("host-oom", ("10.20.0.12",))


def test_srun_names_host_and_task(analyzed):
    analysis = analyzed({"srun.out": SRUN})
    assert verdict(analysis)[:3] == ("host-oom", (0,), ("gpu0002",))


def test_the_model_of_a_gpu_is_no_host(analyzed):
    analysis = analyzed({"dmesg_mi300x.txt": XID})
    assert verdict(analysis)[2] == ()


def test_a_suffix_is_no_part_of_a_host(analyzed):
    assert verdict(analyzed({"cn-118.dmesg": XID}))[2] == ("cn-118",)


def test_a_line_that_names_its_host_outranks_the_prompt_above_it(analyzed):
    lost = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    text = (
        "ada@login1:~$ journalctl -k\n"
        f"Aug 20 10:00:00 gpu0001 kernel: {lost}\n"
        f"ada@gpu0002:~$ sudo dmesg\n[ 1843.305512] {lost}\n"
    )
    (finding,) = [
        f
        for _, f in analyzed({"paste.txt": text}).ranked.findings
        if f.slug == "gpu-fault"
    ]
    assert finding.hosts == ("gpu0001", "gpu0002")


NOTICE = (
    "2026-11-20 12:00:11,312 INFO autoscaler.py:147 -- instance i-0c7b (10.20.0.12) "
    'instance-action {"action": "terminate", "time": "2026-11-20T12:02:00Z"}\n'
)
BOUND = "{0}:41:41 [0] NCCL INFO Bootstrap : Using ens5:{1}<0>\n"


def test_an_address_is_named_as_its_host_names_itself(analyzed):
    bound = BOUND.format("spot-b", "10.20.0.12") + BOUND.format("spot-a", "10.20.0.11")
    inits = "".join(
        f"spot-{host}:{41 + rank}:77 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} "
        f"nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7 - Init COMPLETE\n"
        for rank, host in enumerate("ab")
    )
    analysis = analyzed({"driver.log": bound + inits + NOTICE})
    assert verdict(analysis) == ("preempted", (1,), ("spot-b",))


def test_an_address_that_two_hosts_have_stays_an_address(analyzed):
    bound = BOUND.format("spot-b", "10.20.0.12") + BOUND.format("spot-a", "10.20.0.12")
    analysis = analyzed({"driver.log": bound + NOTICE})
    assert verdict(analysis)[2] == ("10.20.0.12",)


IN_USE = (
    "[W506 09:00:04.421939170 socket.cpp:475] [c10d] The server socket has failed to bind "
    "to [::]:29500 (errno: 98 - Address already in use).\n"
    "[E506 09:00:04.422651626 socket.cpp:511] [c10d] The server socket has failed to "
    "listen on any local network address.\n"
)
CLIENT = (
    "[W506 09:00:05.964870638 TCPStore.cpp:343] [c10d] TCP client failed to "
    "connect/validate to host {}:29500 - retrying (try=0, timeout=600000ms, "
    "delay=22214ms): Ping failed, invalid value returned from server\n"
)


def test_a_file_is_named_by_the_host_whose_store_others_look_for(analyzed):
    files = {"lab3.txt": IN_USE, "lab4.txt": CLIENT.format("lab3")}
    assert verdict(analyzed(files)) == ("port-in-use", (), ("lab3",))
    files["lab4.txt"] = CLIENT.format("10.0.0.3")
    assert verdict(analyzed(files)) == ("port-in-use", (), ())


SRUN_LOST = """srun: error: Node failure on n{}
slurmstepd: error: *** STEP 9.0 ON n0 CANCELLED AT 2026-08-19T04:51:13 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
srun: Job step aborted: Waiting up to 92 seconds for job step to finish.
"""


def agents(lost, ranks, ends=(0, 1, 2, 3)):
    """An agent of four ranks a node; the `ranks` timed out; tasks `ends` were killed."""
    lines = "".join(f" {rank // 4}: {timeout(rank)}" for rank in ranks)
    killed = "".join(
        f"srun: error: n{task}: task {task}: Killed\n" for task in ends if task != lost
    )
    return lines + SRUN_LOST.format(lost) + killed


def test_the_ranks_of_a_lost_node_are_the_block_of_its_task(analyzed):
    log = agents(2, [0, 5, 15])
    assert verdict(analyzed({"job.out": log})) == (
        "node-lost",
        (8, 9, 10, 11),
        ("n2",),
    )


def test_ranks_that_nothing_shows_are_not_all_on_a_lost_node(analyzed):
    log = agents(2, [0, 5, 15], ends=())
    assert verdict(analyzed({"job.out": log})) == ("node-lost", (), ("n2",))


ACTOR = """ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.
\tclass_name: RayTrainWorker
\tpid: 5188
\tip: 10.20.0.12
{}
"""


def test_the_node_of_an_actor_is_lost_only_if_ray_says_that_it_died(analyzed):
    node = "The actor is dead because its node has died. Node Id: 2f90a6d1"
    process = "The actor is dead because its worker process has died."
    for words, slug in ((node, "node-lost"), (process, "crashed-rank")):
        told = verdict(analyzed({"driver.log": ACTOR.format(words)}))
        assert told[::2] == (slug, ("10.20.0.12",))


OWNER = (
    "The actor is dead because its owner has died. Owner Id: 05000000ffff Owner Ip "
    "address: 10.20.0.31 Owner worker exit type: {} Worker exit detail: {}"
)


def test_an_actor_that_ended_with_its_owner_is_not_what_died(analyzed):
    node = OWNER.format("SYSTEM_ERROR", "Owner's node has crashed.")
    told = verdict(analyzed({"driver.log": ACTOR.format(node)}))
    assert told == ("node-lost", (), ("10.20.0.31",))
    process = OWNER.format("SYSTEM_ERROR", "Worker unexpectedly exits with EOF.")
    told = verdict(analyzed({"driver.log": ACTOR.format(process)}))
    assert told == ("crashed-rank", (), ())
    meant = OWNER.format("INTENDED_USER_EXIT", "Owner's worker process has exited.")
    analysis = analyzed({"driver.log": ACTOR.format(meant)})
    assert analysis.report.outcome == "inconclusive"


def test_a_scheduler_of_sglang_that_died_is_a_crashed_rank(analyzed):
    dead = "[11-20 10:02:41] Rank 3 scheduler is dead. Please check the logs.\n"
    for code, slug in (("-9", "crashed-rank"), ("0", None)):
        text = dead + f"[11-20 10:02:43] Exit code: {code}\n"
        found = analyzed({"serve.log": text}).ranked.verdict
        assert (found and found.slug) == slug
        assert found is None or found.ranks == (3,)
