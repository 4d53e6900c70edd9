"""time-limit, preempted and node-lost: the job was stopped, or lost, from outside."""

import pytest

from log_lines import found, init, ruled_out, timeout, traceback, verdict

JOB = init(0, 2) + init(1, 2, host="gpu0002")
SLURM = (
    "slurmstepd: error: *** STEP 50917.0 ON gpu0001 CANCELLED AT 2026-08-20T10:00:00"
    "{cause} ***\n"
)
TIME = SLURM.format(cause=" DUE TO TIME LIMIT")
PREEMPTED = SLURM.format(cause=" DUE TO PREEMPTION")
SIGTERM = (
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 23176 got "
    "signal: 15\n"
)
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)


@pytest.mark.parametrize(
    "line",
    [
        TIME,
        "   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)\n",
        "50917.0      train  research  128  TIMEOUT  0:0\n",
        "=>> PBS: job killed: walltime 3618 exceeded limit 3600\n",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n",
        "submitit INFO (2026-08-20 10:00:00,1) - Job not requeued because: timed-out and "
        "not checkpointable\n",
        "  Warning  DeadlineExceeded  1m  job-controller  Job was active longer than "
        "specified deadline\n",
    ],
)
def test_a_time_limit_accuses_nobody(analyzed, line):
    assert verdict(analyzed({"job.log": JOB + line})) == ("time-limit", (), ())


def test_what_comes_after_a_stop_is_teardown(analyzed):
    log = (
        JOB
        + TIME
        + traceback(1, "ValueError: cut short")
        + traceback(0, LOST)
        + SIGTERM
    )
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("time-limit", (), ())
    assert not found(analysis, "crashed-rank")


@pytest.mark.parametrize(("at", "stopped"), [("10:00:02", True), ("09:59:40", False)])
def test_what_a_file_of_many_writers_holds_is_dated_by_its_time(analyzed, at, stopped):
    lost = f"[2026-08-20 {at}] gpu0001:40:40 [0] misc/socket.cc:50 NCCL WARN "
    lost += "socketProgress: Connection closed by remote peer gpu0002<40000>\n"
    analysis = analyzed({"job.log": JOB + lost + PREEMPTED})
    assert bool(found(analysis, "preempted")) == stopped


def test_a_job_that_had_hung_before_its_limit_failed_by_hanging(analyzed):
    analysis = analyzed({"job.log": JOB + timeout(0) + TIME})
    assert analysis.ranked.outcome == "inconclusive"
    assert not found(analysis, "time-limit")
    assert len(ruled_out(analysis, "time-limit")) == 1


def test_a_crash_before_the_limit_is_the_crash(analyzed):
    log = (
        JOB
        + traceback(
            1,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
            "2.00 GiB. GPU 1 has a total capacity of 79.15 GiB",
        )
        + TIME
    )
    assert verdict(analyzed({"job.log": log}))[:2] == ("gpu-oom", (1,))


@pytest.mark.parametrize("cause", ["", " DUE to SIGNAL Terminated"])
def test_a_cancel_without_a_reason_is_inconclusive(analyzed, cause):
    log = JOB + SLURM.format(cause=cause) + traceback(1, "ValueError: cut short")
    assert verdict(analyzed({"job.log": log})) == "inconclusive"


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        (PREEMPTED, ("gpu0001",)),
        ("50917.0      train  research  128  PREEMPTED  0:0\n", ()),
        (
            "  Normal  Preempted  12s  default-scheduler  Preempted by pod 7a3c on "
            "node "
            "gpu0002\n",
            ("gpu0002",),
        ),
        ('"detail-type": "EC2 Spot Instance Interruption Warning",\n', ()),
        (
            "2026/08/20 10:00:00 INF Spot ITN received. Instance will be interrupted\n",
            (),
        ),
        ('"methodName": "compute.instances.preempted",\n', ()),
        (
            '{"EventId":"A1","EventType":"Preempt","ResourceType":"VirtualMachine"}\n',
            (),
        ),
    ],
)
def test_a_preemption_names_the_node_where_it_is_told(analyzed, line, hosts):
    analysis = analyzed({"job.log": JOB + line + SIGTERM})
    assert verdict(analysis) == ("preempted", (), hosts)


def test_the_agents_own_signal_is_no_preemption(analyzed):
    log = (
        JOB + "W0820 10:00:00.622000 23171 "
        "torch/distributed/elastic/agent/server/api.py:753]"
    )
    log += " Received 15 death signal, shutting down workers\n" + SIGTERM
    assert verdict(analyzed({"job.log": log})) == "inconclusive"


def test_the_word_in_a_setting_is_no_preemption(analyzed):
    text = "preemption: {enabled: true, handler: on_spot_interruption}\n"
    assert verdict(analyzed({"job.log": JOB + text})) == "no-failure"


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("srun: error: Node failure on gpu0002\n", ("gpu0002",)),
        (
            "[2026-08-20T10:00:00.123] error: Nodes gpu0002 not responding, setting "
            "DOWN\n",
            ("gpu0002",),
        ),
        (
            "  Normal  NodeNotReady  5m  node-controller  Node gpu0002 status is now: "
            "NodeNotReady\n",
            ("gpu0002",),
        ),
        ("  Remote daemon: [[17757,0],13] on node gpu0002\n", ("gpu0002",)),
    ],
)
def test_a_lost_node_is_named_with_its_ranks(analyzed, line, hosts):
    analysis = analyzed({"job.log": JOB + timeout(0) + line})
    assert verdict(analysis) == ("node-lost", (1,), hosts)


def test_the_node_that_reports_the_loss_is_not_the_lost_one(analyzed):
    cause = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    log = JOB + SLURM.format(cause=cause)
    assert verdict(analyzed({"job.log": log})) == ("node-lost", (), ())


def test_a_host_without_logs_is_not_called_lost(analyzed):
    analysis = analyzed({"gpu0001/rank_0.log": JOB.splitlines()[0] + "\n" + timeout(0)})
    assert not found(analysis, "node-lost")
    assert analysis.ranked.outcome == "inconclusive"


def test_a_heartbeat_that_an_agent_could_not_send_names_nobody(analyzed):
    line = (
        "W0820 10:00:00.278000 41007 torch/distributed/elastic/rendezvous/"
        "dynamic_rendezvous.py:1200] The node 'gpu0002_41007_0' has failed to send a "
        "keep-alive heartbeat to the rendezvous 'none' due to an error of type "
        "RendezvousConnectionError.\n"
    )
    assert verdict(analyzed({"job.log": JOB + line})) == "inconclusive"
