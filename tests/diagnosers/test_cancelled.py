"""cancelled: somebody ended a job that ran; a hang before it is the verdict instead."""

import pytest

from log_lines import found, init, ruled_out, timeout, traceback, verdict

JOB = init(0, 2) + init(1, 2, host="gpu0002")
STOPPED = "CANCELLED AT 2026-08-20T10:00:00"
BY_USER = f"slurmstepd: error: *** JOB 50917 ON gpu0001 {STOPPED} ***\n"
OF_STEP = f"slurmstepd: error: *** STEP 50917.0 ON gpu0001 {STOPPED} ***\n"
ACCOUNTED = (
    "50917|pretrain|alice|CANCELLED by 1001|0:0|2026-08-20T09:49:10|"
    "2026-08-20T10:00:00|gpu[0001-0002]\n"
)
SHOWN = (
    "JobId=50917 JobName=pretrain\n   UserId=alice(1001) GroupId=alice(1001)\n"
    "   JobState=CANCELLED Reason=None Dependency=(null)\n"
    "   StartTime=2026-08-20T09:49:10 EndTime=2026-08-20T10:00:00 Deadline=N/A\n"
    "   NodeList=gpu[0001-0002]\n"
)
LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:1"
)


@pytest.mark.parametrize(
    "line",
    [
        BY_USER,
        BY_USER.replace(" ***\n", " DUE to SIGNAL Terminated ***\n"),
        ACCOUNTED,
        "50917   pretrain   main   research   4 CANCELLED+      0:0 \n",
        SHOWN,
        "TERM_OWNER: job killed by owner.\n",
    ],
)
def test_a_cancel_accuses_nobody(analyzed, line):
    analysis = analyzed({"job.log": JOB + line})
    assert verdict(analysis) == ("cancelled", (), ())
    assert analysis.ranked.verdict.confidence == "certain"


def test_the_user_that_accounting_names_is_told(analyzed):
    analysis = analyzed({"job.log": JOB + BY_USER, "sacct.txt": ACCOUNTED})
    assert "by uid 1001" in analysis.ranked.verdict.headline


def test_what_comes_after_a_cancel_is_teardown(analyzed):
    log = JOB + BY_USER + traceback(1, "ValueError: cut short") + traceback(0, LOST)
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("cancelled", (), ())
    assert not found(analysis, "crashed-rank")


def test_a_job_that_hung_was_only_ended_by_the_cancel(analyzed):
    analysis = analyzed({"job.log": JOB + timeout(0) + BY_USER})
    assert analysis.ranked.verdict is None or verdict(analysis)[0] != "cancelled"
    assert "only how it ended" in ruled_out(analysis, "cancelled")[0].why


@pytest.mark.parametrize("table", [ACCOUNTED, SHOWN])
def test_a_table_dates_the_cancel_after_a_crash_in_another_file(analyzed, table):
    log = JOB + traceback(1, "ValueError: loss is nan").replace(
        "[rank1]: Traceback", "2026-08-20 09:52:00 [rank1]: Traceback"
    )
    analysis = analyzed({"job.log": log, "sacct.txt": table})
    assert verdict(analysis)[:2] == ("crashed-rank", (1,))


def test_a_table_without_times_does_not_excuse_a_timeout_elsewhere(analyzed):
    table = "50917   pretrain   main   research   4 CANCELLED+      0:0 \n"
    analysis = analyzed({"job.log": JOB + timeout(0), "sacct.txt": table})
    assert ruled_out(analysis, "cancelled")


def test_srun_ends_a_step_whose_task_failed(analyzed):
    log = JOB + "srun: error: gpu0002: task 1: Exited with exit code 3\n" + OF_STEP
    analysis = analyzed({"job.log": log})
    assert not found(analysis, "cancelled")


def test_a_step_alone_does_not_say_who_ended_it(analyzed):
    assert not found(analyzed({"job.log": JOB + OF_STEP}), "cancelled")


@pytest.mark.parametrize(
    ("cause", "slug"),
    [
        (" DUE TO TIME LIMIT", "time-limit"),
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node-lost"),
    ],
)
def test_a_cause_of_its_own_is_no_cancel(analyzed, cause, slug):
    # Slurm 22.05 accounts the steps of a job that timed out as CANCELLED
    log = JOB + BY_USER.replace(" ***\n", f"{cause} ***\n") + OF_STEP
    analysis = analyzed({"job.log": log})
    assert verdict(analysis)[0] == slug
    assert not found(analysis, "cancelled")


def test_ctrl_c_reaches_every_rank(analyzed):
    log = JOB + traceback(0, "KeyboardInterrupt") + traceback(1, "KeyboardInterrupt")
    analysis = analyzed({"job.log": log})
    assert verdict(analysis) == ("cancelled", (), ())
    assert analysis.ranked.verdict.confidence == "likely"


def test_a_traceback_whose_exception_is_lost_is_no_interrupt(analyzed):
    cut = "[rank1]: Traceback (most recent call last):\n"
    assert verdict(analyzed({"job.log": JOB + cut}))[0] != "cancelled"


def test_what_is_pasted_may_end_with_the_head_of_the_next_traceback(analyzed):
    log = JOB + traceback(0, "KeyboardInterrupt") + "Traceback (most recent call last):"
    assert verdict(analyzed({"job.log": log}))[0] == "cancelled"


def test_an_agent_may_interrupt_the_peers_of_a_rank_that_raised(analyzed):
    files = {
        "rank_0.log": traceback(0, "ValueError: loss is nan"),
        "rank_1.log": traceback(1, "KeyboardInterrupt"),
    }
    analysis = analyzed(files)
    assert verdict(analysis)[:2] == ("crashed-rank", (0,))
    assert not found(analysis, "cancelled")


def test_sigterm_alone_does_not_say_who_sent_it(analyzed):
    sigterm = (
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 23176 "
        "got signal: 15\n"
    )
    assert not found(analyzed({"job.log": JOB + sigterm}), "cancelled")


@pytest.mark.parametrize(
    ("signal", "by", "detached"),
    [("SIGINT", "by Ctrl-C", False), ("SIGHUP", "with its terminal", True)],
)
def test_a_key_or_a_closed_terminal_cancels_too(analyzed, signal, by, detached):
    line = f"Received Signals.{signal} death signal, shutting down workers\n"
    agent = "W1120 11:24:16.622000 23171 torch/distributed/elastic/agent/server/api.py:"
    told = analyzed({"job.log": f"^C{agent}753] {line}"})
    assert verdict(told)[0] == "cancelled"
    ((_, cancelled),) = found(told, "cancelled")
    assert by in cancelled.headline
    assert any("tmux" in str(action) for action in cancelled.remedy) is detached


CLOSING = (
    "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 23176 closing "
    "signal {}\n"
)


def test_an_agent_passes_on_the_signal_of_a_closed_terminal(analyzed):
    text = JOB + CLOSING.format("SIGHUP")
    assert verdict(analyzed({"job.log": text}))[0] == "cancelled"
    other = analyzed({"job.log": JOB + CLOSING.format("SIGTERM")})
    assert not found(other, "cancelled")


def test_an_exception_above_the_cancellation_is_the_failure(analyzed):
    raised = traceback(None, "AttributeError: 'ndarray' object has no attribute 'grad'")
    stop = "slurmstepd: error: *** JOB 50917 ON gpu0002 CANCELLED AT {} ***\n".format(
        "2026-08-20T10:00:00"
    )
    assert analyzed({"job.out": raised + stop}).ranked.verdict.slug == "crashed-rank"
    assert analyzed({"job.out": stop + raised}).ranked.verdict.slug == "cancelled"


AUDIT = (
    '{{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete",'
    '"verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":'
    '"pytorchjobs","namespace":"ml","name":"llm"}},"responseStatus":{{"code":200}}}}\n'
)
STEPS = "".join(f"[pod/llm-worker-0/pytorch] step {n} loss 2.5\n" for n in range(4))


def test_a_job_that_somebody_deleted_was_cancelled(analyzed):
    log = AUDIT.format(verb="delete", user="ada@example.org")
    found = analyzed({"audit.jsonl": log, "pods.log": STEPS}).ranked.verdict
    assert found.slug == "cancelled"
    assert "by ada@example.org" in found.headline


@pytest.mark.parametrize(
    ("verb", "user"),
    [("get", "ada@example.org"), ("delete", "system:serviceaccount:kube:ttl")],
)
def test_a_controller_that_cleans_up_cancels_nothing(analyzed, verb, user):
    log = AUDIT.format(verb=verb, user=user)
    found = analyzed({"audit.jsonl": log, "pods.log": STEPS}).ranked
    assert found.verdict is None


def test_a_step_whose_tasks_only_got_the_signal_of_srun_was_cancelled(analyzed):
    ends = "srun: error: gpu0001: task 0: Terminated\n"
    ((role, finding),) = found(analyzed({"job.log": OF_STEP + ends}), "cancelled")
    assert (role, finding.ranks) == ("root", ())
    failed = "srun: error: gpu0001: task 1: Exited with exit code 3\n"
    for log in (failed + OF_STEP + ends, OF_STEP + failed):
        assert not found(analyzed({"job.log": log}), "cancelled")
    memory = "slurmstepd: error: Exceeded job memory limit\n"
    assert not found(analyzed({"job.log": memory + OF_STEP + ends}), "cancelled")


def test_a_node_failure_is_read_from_lines_that_were_wrapped(analyzed):
    text = OF_STEP.replace(" ***\n", "").replace("CANCELLED AT ", "CANCELLED AT \n  ")
    text += " DUE TO NODE FAILURE, \n  SEE SLURMCTLD LOG FOR DETAILS \n"
    analysis = analyzed({"job.err": text.replace("STEP 50917.0", "JOB 50917")})
    assert analysis.ranked.verdict.slug == "node-lost"
