"""What launchers of other kinds say of who is missing or gone: Horovod, MPI, Ray."""

import pickle

import pytest

from log_lines import found, open_call, timeout, verdict

STALL = (
    "[2026-11-20 12:00:00.123456: W /build/horovod/common/stall_inspector.cc:107] One "
    "or more tensors were submitted to be reduced, gathered or broadcasted by subset "
    "of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
    "Missing ranks:\n"
)
OLD_STALL = "[1,0]<stderr>:Stalled ops:{tensor} [missing ranks: {ranks}]\n"


def test_horovods_stall_inspector_names_the_missing_rank(analyzed):
    log = STALL + "2: [allreduce.fc.weight, allreduce.fc.bias]\n"
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("missing-rank", (2,), ())
    assert "allreduce.fc.weight" in analysis.ranked.verdict.headline


def test_horovod_up_to_0_17_names_it_by_tensor(analyzed):
    log = "".join(
        OLD_STALL.format(tensor=t, ranks="1, 3") for t in ("grad_a", "grad_b")
    )
    assert verdict(analyzed({"job.log": log})) == ("missing-rank", (1, 3), ())


READY = "Stalled ops: {a} [ready ranks: {x}], {b} [ready ranks: {y}]\n"


def test_horovod_up_to_0_15_tells_who_came(analyzed):
    log = READY.format(a="grad_a", b="grad_b", x="0, 4, 3, 1", y="1, 4, 0, 3")
    assert verdict(analyzed({"job.log": log})) == ("missing-rank", (2,), ())
    crossed = READY.format(a="loss", b="grad_b", x="3", y="0, 1, 2")
    assert verdict(analyzed({"job.log": crossed}))[0] != "missing-rank"


SAW = (
    "[rank{0}]:[E1128 21:11:49.041188078 ProcessGroupNCCL.cpp:1806] [PG ID 0 PG GUID "
    "0(default_pg) Rank {0}] Observed flight recorder dump signal from another rank via "
    "TCPStore.\n"
)


def test_who_only_saw_the_others_signal_is_whom_they_waited_for(analyzed):
    others = timeout(1) + timeout(2)
    found = verdict(analyzed({"job.log": others + SAW.format(0)}))
    assert found == ("missing-rank", (0,), ())
    # one of two may have been asked before its own timeout
    alone = verdict(analyzed({"job.log": timeout(1) + SAW.format(0)}))
    assert alone == "inconclusive"


def test_ranks_that_miss_different_tensors_wait_for_each_other(analyzed):
    log = STALL + "0: [allreduce.decoder]\n1: [allreduce.encoder]\n"
    assert verdict(analyzed({"job.log": log})) == "inconclusive"


def test_a_stall_that_training_got_over_accuses_nobody(analyzed):
    log = STALL + "2: [allreduce.fc.weight]\n2026-11-20 12:01:10,000 step 12 loss 1.2\n"
    assert verdict(analyzed({"job.log": log})) == "inconclusive"


OPEN_MPI = (
    "a non-zero exit code. Per user-direction, the job has been aborted.\n"
    "mpirun detected that one or more processes exited with non-zero status, thus "
    "causing\nthe job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[1888,1],3]\n  Exit code:    {code}\n"
)


def test_the_first_process_that_mpirun_saw_end_by_a_fault_is_named(analyzed):
    log = OPEN_MPI.format(code=139)
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (3,), ())


def test_its_exit_code_1_alone_may_be_a_victims(analyzed):
    assert verdict(analyzed({"job.log": OPEN_MPI.format(code=1)})) == "inconclusive"


@pytest.mark.parametrize(
    ("code", "says"), [(11, ("crashed-rank", (), ("gpu0001",))), (1, "inconclusive")]
)
def test_hydras_exit_code_of_a_signal_is_the_signal(analyzed, code, says):
    log = (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        f"=   PID 41011 RUNNING AT gpu0001\n=   EXIT CODE: {code}\n"
    )
    assert verdict(analyzed({"job.log": log})) == says


DIED = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this "
    "task.\n\tclass_name: Worker\n\tactor_id: 9f0c\n\tpid: {pid}\n\tip: {ip}\n"
    "The actor is dead because its worker process has died.\n"
)


def test_a_ray_actor_that_died_is_named_by_its_address(analyzed):
    log = DIED.format(pid=41011, ip="10.20.0.12")
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("crashed-rank", (), ("10.20.0.12",))
    assert analysis.ranked.verdict.confidence == "likely"


def test_of_several_actors_that_died_none_is_named(analyzed):
    log = DIED.format(pid=41011, ip="10.20.0.12") + DIED.format(pid=41, ip="10.20.0.13")
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (), ())


def test_an_actor_whose_watchdog_gave_up_is_a_victim(analyzed):
    log = timeout(4) + DIED.format(pid=41011, ip="10.20.0.12")
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == "inconclusive"
    assert not found(analysis, "crashed-rank")


@pytest.mark.parametrize(
    ("resource", "says"), [("memory", "host-oom"), ("ephemeral-storage", None)]
)
def test_a_pod_put_out_for_want_of_memory_is_host_oom(analyzed, resource, says):
    log = (
        f"  Warning  Evicted  2m  kubelet  The node was low on resource: {resource}.\n"
    )
    analysis = analyzed({"events.log": log})
    assert (found(analysis, "host-oom") != []) == (says == "host-oom")


def test_a_loss_that_is_not_a_number_names_the_rank_that_found_it(analyzed):
    log = (
        "Rank 3, node gpu0001, device 3, iteration 120: Unexpected result nan "
        "(message='found NaN in local forward loss calculation')\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (3,), ("gpu0001",))


SLURM_MEMORY = (
    "slurmstepd: error: Job 50917 exceeded memory limit (50385312 > 49152000), being "
    "killed\nslurmstepd: error: Exceeded job memory limit\n"
)


def test_slurms_own_memory_limit_is_host_oom(analyzed):
    assert verdict(analyzed({"job.log": SLURM_MEMORY}))[0] == "host-oom"


def test_the_node_in_slurmstepds_name_is_its_host(analyzed):
    log = (
        "slurmstepd-gpu0002: error: Detected 1 oom-kill event(s) in StepId=50917.0. "
        "Some of your processes may have been killed by the cgroup out-of-memory "
        "handler.\nsrun: error: gpu0002: task 1: Out Of Memory\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("host-oom", (1,), ("gpu0002",))


def test_a_list_of_tensors_that_is_cut_still_names_the_missing_rank(analyzed):
    log = STALL + "2: [allreduce.fc.weight, allreduce.fc.bi"
    assert verdict(analyzed({"job.log": log})) == ("missing-rank", (2,), ())


def test_a_process_whose_pid_and_node_were_blotted_out_is_named_by_rank(analyzed):
    log = (
        "mpirun noticed that process rank 1 with PID xxxxx on node xxxxxxx exited on "
        "signal 9 (Killed).\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (1,), ())


def test_horovods_shut_down_is_a_victims(analyzed):
    log = "[1,2]<stderr>:Horovod has been shut down. This was caused by an exception\n"
    assert verdict(analyzed({"job.log": log})) == "inconclusive"


ASSERT = (
    "[rank1]: ../aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: "
    "[68,0,0], thread: [{thread},0,0] Assertion `index < sizes[i]` failed.\n"
)


def test_a_check_that_failed_on_the_gpu_names_its_rank(analyzed):
    log = "".join(ASSERT.format(thread=thread) for thread in range(3))
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (1,), ())


ORTE = """ORTE has lost communication with its daemon located on node:

  hostname:  gpu0002.cluster

This is usually due to either a failure of the TCP network
"""


@pytest.mark.parametrize(("cut", "hosts"), [(4, ("gpu0002.cluster",)), (1, ())])
def test_the_node_whose_daemon_old_open_mpi_lost(analyzed, cut, hosts):
    log = "".join(ORTE.splitlines(keepends=True)[:cut])
    assert verdict(analyzed({"job.log": log})) == ("node-lost", (), hosts)


def test_a_node_whose_name_ssh_does_not_know_is_named(analyzed):
    log = "ssh: Could not resolve hostname gpu0002: Name or service not known\n"
    found = verdict(analyzed({"job.log": log}))
    assert found == ("rendezvous-failed", (), ("gpu0002",))


CHILD = (
    "gpu-node-1: [2026-11-20 12:00:00,123] [ERROR] [launch.py:321:sigkill_handler] "
    "['/usr/bin/python3', 'train.py', '--local_rank=0'] exits with return code = -9\n"
)
SSH = "pdsh@head: gpu-node-1: ssh exited with exit code 247\n"


@pytest.mark.parametrize(("log", "ranks"), [(CHILD, (0,)), (CHILD + SSH, ())])
def test_behind_pdsh_a_nodes_first_rank_is_not_the_jobs(analyzed, log, ranks):
    found = verdict(analyzed({"job.log": log}))
    assert found == ("crashed-rank", ranks, ("gpu-node-1",))


ENTRY = (
    "  host      : gpu0002\n  rank      : 9 (local_rank: 1)\n"
    "  exitcode  : -11 (pid: 77)\n  error_file: <N/A>\n"
    "  traceback : Signal 11 (SIGSEGV) received by PID 77\n"
)


@pytest.mark.parametrize(("cut", "hosts"), [(0, ("gpu0002",)), (1, ())])
def test_an_entry_without_the_tables_head_still_tells_its_host(analyzed, cut, hosts):
    log = "".join(ENTRY.splitlines(keepends=True)[cut:])
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (9,), hosts)


TOLD = (
    "W0409 07:28:49.530000 1359 torch/distributed/elastic/agent/server/api.py:719] "
    "Received 15 death signal, shutting down workers\n"
)
CLOSED = "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"


def test_a_rendezvous_that_an_agent_left_as_it_was_told_to_did_not_fail(analyzed):
    assert verdict(analyzed({"job.log": CLOSED}))[0] == "rendezvous-failed"
    assert verdict(analyzed({"job.log": CLOSED + TOLD})) == "inconclusive"


TIMED_OUT = (
    "[rank1]:[E712 07:09:16.129000000 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) ran for 600002 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(
    "part",
    [
        "\t     [0] finished collective #40, but didn't join collective #41 (count from 1)\n",
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the "
        "desync are:\n\t   - [1] joined but didn't finish collective #41 (count from 1)\n"
        "\t     [0] finished collective #40, but didn't join collective #41 (count from 1)\n",
        "\t - To our best knowledge, ranks [0] are the lagging ranks that caused this "
        "timeout. They never joined any collectives\n",
    ],
)
def test_a_part_of_a_desync_report_still_names_the_rank(analyzed, part):
    found = analyzed({"job.log": TIMED_OUT + part}).ranked.verdict
    assert (found.slug, found.ranks) == ("missing-rank", (0,))


def test_a_lost_node_takes_no_ranks_where_nothing_places_any(analyzed):
    log = "".join(f"rank {rank}/8 started\n" for rank in range(8))
    log += "srun: error: Node failure on gpu0007\n"
    found = analyzed({"slurm-7.out": log}).ranked.verdict
    assert (found.slug, found.hosts, found.ranks) == ("node-lost", ("gpu0007",), ())
    placed = "".join(
        f"rank {rank}/8 up on gpu000{6 + rank // 4}\n" for rank in range(8)
    )
    log = f"{placed}srun: error: Node failure on gpu0007\n"
    assert analyzed({"slurm-7.out": log}).ranked.verdict.ranks == (4, 5, 6, 7)


def steps(tasks):
    return "".join(f"{t:2}: 10:00:00 step 7 loss 2.5\n" for t in tasks)


ENDED = (
    "srun: error: Node failure on gpu0002\n"
    "slurmstepd: error: *** STEP 5.0 ON gpu0001 CANCELLED AT 2026-11-20T12:40:00 DUE TO "
    "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    "srun: error: gpu0001: tasks 0-3: Killed\n"
    "srun: error: gpu0003: tasks 8-11: Killed\n"
)


def test_the_tasks_that_end_on_no_other_node_are_those_of_the_lost_one(analyzed):
    told = verdict(analyzed({"job.log": steps(range(12)) + ENDED}))
    assert told == ("node-lost", (4, 5, 6, 7), ("gpu0002",))


def test_with_another_node_untold_nobody_knows_whose_tasks_are_left(analyzed):
    told = verdict(analyzed({"job.log": steps(range(16)) + ENDED}))
    assert told == ("node-lost", (), ("gpu0002",))


def test_of_two_actors_that_died_on_one_host_the_host_is_named(analyzed):
    log = DIED.format(pid=41011, ip="10.20.0.12") + DIED.format(pid=41, ip="10.20.0.12")
    found = verdict(analyzed({"job.log": log}))
    assert found == ("crashed-rank", (), ("10.20.0.12",))


def test_mpirun_may_leave_out_the_name_of_a_node(analyzed):
    log = (
        "mpirun noticed that process rank 2 with PID 0 on node exited on signal 11 "
        "(Segmentation fault).\n"
    )
    assert verdict(analyzed({"job.log": log})) == ("crashed-rank", (2,), ())


def test_a_node_on_which_slurm_could_not_start_tasks_is_told(analyzed):
    log = (
        "srun: error: Task launch for StepId=50917.0 failed on node gpu0002: "
        "Communication connection failure\n"
    )
    ranked = analyzed({"job.log": log}).ranked
    assert ranked.outcome == "inconclusive"


AGENTS = "".join(
    f"2026-11-20 10:00:0{n},000 launcher: agent gpu000{n} registered, ranks "
    f"{2 * n}-{2 * n + 1}\n"
    for n in range(4)
)
OVERDUE = (
    "2026-11-20 10:10:00,000 launcher: heartbeat of agent gpu0003 overdue by 20 s\n"
)


@pytest.mark.parametrize(("unseen", "fires"), [((6, 7), True), ((), False)])
def test_an_agent_that_its_launcher_does_not_hear_is_lost_if_its_ranks_are(
    analyzed, unseen, fires
):
    """The look-alike: it is late for a while."""
    seen = [rank for rank in range(8) if rank not in unseen]
    logs = {f"rank_{rank}.log": timeout(rank) for rank in seen}
    dumps = {f"nccl_trace_rank_{rank}": waiting(8) for rank in seen}
    told = verdict(analyzed({"launcher.log": AGENTS + OVERDUE, **logs, **dumps}))
    assert (told == ("node-lost", (6, 7), ("gpu0003",))) == fires
    assert fires or told[0] != "node-lost"


def waiting(ranks):
    """A dump of a rank that waits in the one call of a group of all."""
    entry = open_call("nccl", 1_763_000_000_000_000_000)
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str([*range(ranks)])}}
    told = {"version": "2.4", "pg_config": config, "pg_status": {}, "entries": [entry]}
    return pickle.dumps(told)
