"""JAX's coordination service and HCCL tell for whom the others waited."""

import pytest

from log_lines import verdict

TASK = "/job:jax_worker/replica:0/task:{}\n"
BARRIER = (
    "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
    "Barrier_id: save_4. Timed out task names:\n"
)
REGISTER = (
    "Stopping coordination service as cluster registration failed. This may be due to "
    "1) some tasks crashed earlier before connecting\n\nOriginal error: "
    "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. "
    "This usually happens because a task triggered the barrier too early or too slowly.\n"
)
GONE = (
    "2026-11-20 12:00:00.140058: E coordination_service.cc:954] "
    "/job:jax_worker/replica:0/task:3 has been set to ERROR in coordination service: "
    "UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout. This "
    "indicates that the remote task has failed, got preempted, or crashed unexpectedly.\n"
)
NOTIFY = (
    "[rank{}]: EI0002: [PID: 41011] 2026-11-20-12:00:00.713.335 The wait execution of "
    "the Notify register times out. Reason: The Notify register has not received the "
    "Notify record from remote rank: [{}]. base information: [streamID:[9]]\n"
)


def test_the_tasks_that_did_not_come_are_named(analyzed):
    text = BARRIER + TASK.format(3) + TASK.format(0) + "\nAdditional GRPC error\n"
    analysis = analyzed({"job.log": text})
    assert verdict(analysis)[:2] == ("missing-rank", (0, 3))


def test_escaped_line_breaks_are_read_alike(analyzed):
    text = BARRIER.rstrip() + (TASK.format(3) + TASK.format(1)).replace("\n", "\\n")
    text = text.replace("names:/job", "names:\\n/job")
    assert verdict(analyzed({"job.log": text + "\n"}))[:2] == ("missing-rank", (1, 3))


def test_tasks_that_never_registered_are_a_rendezvous_without_names(analyzed):
    analysis = analyzed({"job.log": REGISTER})
    assert verdict(analysis)[:2] == ("rendezvous-failed", ())


UNREGISTERED = (
    "jaxlib.xla_extension.XlaRuntimeError: {}\nAdditional GRPC error information from "
    "remote target coordination_service while calling "
    "/xla.coordination.CoordinationService/RegisterTask:\n"
)
LATE = {
    "registering": UNREGISTERED.format("DEADLINE_EXCEEDED: Deadline Exceeded"),
    "connecting": "RuntimeError: DEADLINE_EXCEEDED: Timed out after 5m waiting for all "
    "nodes to call Connect()\n",
    "topology": "Getting local topologies failed: GetKeyValue() timed out with key: "
    "cuda:local_topology/cuda/3 and duration: 2m\n",
}


@pytest.mark.parametrize("text", LATE.values(), ids=LATE)
def test_a_process_that_met_nobody_accuses_nobody(analyzed, text):
    assert verdict(analyzed({"job.log": text}))[:2] == ("rendezvous-failed", ())


def test_a_process_that_was_restarted_is_turned_away_and_not_late(analyzed):
    why = (
        "ABORTED: /job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a "
        "different incarnation. It has likely restarted."
    )
    assert verdict(analyzed({"job.log": UNREGISTERED.format(why)})) == "inconclusive"


def test_a_process_without_heartbeats_is_gone(analyzed):
    analysis = analyzed({"job.log": GONE})
    assert verdict(analysis)[:2] == ("crashed-rank", (3,))
    assert analysis.ranked.verdict.confidence == "possible"  # or it hangs


def test_of_those_that_hccl_waits_for_the_one_that_does_not_wait_is_named(analyzed):
    text = NOTIFY.format(1, 2) + NOTIFY.format(2, 5)
    found = analyzed({"job.log": text})
    assert verdict(found)[:2] == ("missing-rank", (5,))
    assert found.ranked.verdict.confidence == "possible"  # it may wait as well
    at_work = analyzed({"job.log": text, "rank5.log": "[rank5]: step 7 loss 2.5\n"})
    assert at_work.ranked.verdict.confidence == "likely"
    circle = NOTIFY.format(1, 2) + NOTIFY.format(2, 1)
    assert analyzed({"job.log": circle}).ranked.outcome == "inconclusive"


def test_an_exception_under_the_frames_of_a_collective_accuses_nobody(analyzed):
    frames = (
        '[rank1]:   File "/opt/venv/lib/python3.12/site-packages/torch/distributed/'
        'distributed_c10d.py", line 2501, in all_reduce\n'
        "[rank1]:     work = group.allreduce([tensor], opts)\n"
    )
    words = "[rank1]: RuntimeError: the stream of this device is gone\n"
    analysis = analyzed({"job.log": frames + words})
    assert analysis.ranked.outcome == "inconclusive"
    own = words.replace("RuntimeError", "[rank1]: ValueError")[9:]
    assert verdict(analyzed({"job.log": own}))[:2] == ("crashed-rank", (1,))


@pytest.mark.parametrize(
    ("barrier", "slug"),
    [("PjRT_Client_Connect", "rendezvous-failed"), ("save_4", "missing-rank")],
)
def test_the_barrier_of_the_start_is_a_rendezvous(analyzed, barrier, slug):
    text = BARRIER.replace("save_4", barrier) + TASK.format(1) + TASK.format(2)
    assert verdict(analyzed({"job.log": text}))[:2] == (slug, (1, 2))


LINK = (
    "[ERROR] HCCL(7301,python3):2026-11-20-12:00:00.123.706 [hccl_socket_manager.cc:599] "
    "[7344] |   192.0.2.17({})   |   16666  |   192.0.2.12({})   |   0   |   server   |  "
    " time out   |  DISABLE  |\n"
)
HEARTBEAT = (
    "[ERROR]HCCL(7301,python3):2026-11-20-12:00:00.049.385[task_exception_handler.cc:610]"
    "[7344][TaskExecStage][HeartbeatAbnormal]Cluster Exception Location[IP/ID]:[192.0.2."
    "{}/5], Arrival Time:[Fri Nov 20 11:57:58 2026], Discoverer:[192.0.2.12/0], "
    "ExceptionType:[{} Occurred], Possible Reason:1. Process has exited\n"
)


def test_a_link_of_hccl_is_waited_for_as_a_call_is(analyzed):
    found = analyzed({"job.log": LINK.format(5, 0) + LINK.format(0, 2)})
    assert verdict(found)[:2] == ("missing-rank", (5,))
    assert found.ranked.verdict.confidence == "possible"
    both = LINK.format(5, 0) + LINK.format(0, 5)
    assert analyzed({"job.log": both}).ranked.outcome == "inconclusive"


def test_a_device_whose_heartbeats_hccl_lost_is_possibly_gone(analyzed):
    told = analyzed({"plog.log": HEARTBEAT.format(17, "Heartbeat Lost")}).ranked.verdict
    assert (told.slug, told.confidence) == ("crashed-rank", "possible")
    assert (told.ranks, told.hosts) == ((), ("192.0.2.17",))
    assert "device 5" in told.headline


def test_one_that_is_stuck_or_of_several_is_not(analyzed):
    stuck = HEARTBEAT.format(17, "Stuck")
    several = "".join(HEARTBEAT.format(n, "Heartbeat Lost") for n in (17, 18))
    for log in (stuck, several):
        assert analyzed({"plog.log": log}).ranked.outcome == "inconclusive"
