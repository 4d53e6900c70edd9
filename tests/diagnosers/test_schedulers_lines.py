"""What batch systems and submitit say of a job that they ended."""

import pytest

from log_lines import traceback, verdict

MAIL = (
    "PBS Job Id: 4711.head\nExec host:  {}\njob deleted\njob preempted (node failure)\n"
)


@pytest.mark.parametrize(
    ("given", "hosts"),
    [("gpu0007/3", ("gpu0007",)), ("gpu0007/0+gpu0008/0", ())],
    ids=["one", "several"],
)
def test_the_node_that_pbs_lost_is_named_if_the_job_had_one(analyzed, given, hosts):
    assert verdict(analyzed({"mail.txt": MAIL.format(given)})) == (
        "node-lost",
        (),
        hosts,
    )


def test_a_mail_that_only_lists_the_hosts_tells_of_no_failure(analyzed):
    mail = "PBS Job Id: 4711.head\nExec host:  gpu0007/3\nExecution terminated\nExit_status=0\n"
    assert verdict(analyzed({"mail.txt": mail})) == "no-failure"


SUBMITIT = "submitit {} (2026-11-20 11:{}:02,512) - {}\n"
START = (
    "Starting with JobEnvironment(job_id=4711, hostname=gpu0007, local_rank=1(2), "
    "node=0(1), global_rank=1(2))"
)
STOP = "Caught signal SIGUSR2 on gpu0007: this job is {}."
TIMED = "Job has not timed out. Ran 41 minutes out of requested 60 minutes."


def log(case, *more):
    lines = (("INFO", START), ("INFO", TIMED), ("WARNING", STOP.format(case)), *more)
    return "".join(
        SUBMITIT.format(lv, n + 10, text) for n, (lv, text) in enumerate(lines)
    )


@pytest.mark.parametrize("more", [(), (("INFO", START),)], ids=["ended", "began again"])
def test_a_preemption_that_submitit_caught_is_likely(analyzed, more):
    analysis = analyzed({"4711_1_log.out": log("preempted", *more)})
    assert verdict(analysis) == ("preempted", (), ("gpu0007",))
    assert analysis.ranked.verdict.confidence == "likely"


def test_a_job_that_failed_after_it_began_again_was_not_lost_to_the_preemption(
    analyzed,
):
    text = log("preempted", ("INFO", START)) + traceback(1, "ValueError: no such key")
    assert verdict(analyzed({"4711_1_log.out": text}))[0] == "crashed-rank"


def test_a_job_whose_time_was_over_is_not_preempted(analyzed):
    found = analyzed({"4711_1_log.out": log("timed-out")}).ranked.findings
    assert "preempted" not in [f.slug for _, f in found]


@pytest.mark.parametrize(("on_node", "told"), [("2", [(1, "gpu0007")]), ("1", [])])
def test_a_task_of_submitit_is_a_rank_where_a_node_holds_several(
    analyzed, on_node, told
):
    text = log("preempted").replace("local_rank=1(2)", f"local_rank=0({on_node})")
    ranks = analyzed({"4711.out": text}).frames["ranks"]
    assert ranks.select("rank", "host").rows() == told


LSF = "TERM_{}\nExited with exit code 137.\n"
LIMITS = {
    "time-limit": (
        "=>> PBS: job killed: walltime 3618 exceeded limit 3600\n",
        "Aborted by PBS Server\nJob exceeded its walltime limit. Job was aborted\n",
        LSF.format("DEADLINE: job killed after deadline expires."),
        "11/20/2026 12:00:00|  main|gpu0001|W|job 50917.1 exceeded hard wallclock time - "
        "initiate terminate method\n",
        "12.345s: job.exception type=timeout severity=0 resource allocation expired\n",
    ),
    "host-oom": (
        "=>> PBS: job killed: mem 4195684kb exceeded limit 4194304kb\n",
        "Aborted by PBS Server\nJob exceeded a memory resource limit (vmem, pvmem, etc.). "
        "Job was aborted\n",
        LSF.format("MEMLIMIT: job killed after reaching LSF memory usage limit."),
        "slurmstepd: error: StepId=50917.0 exceeded virtual memory limit (50385312 > "
        "49152000), being killed\n",
    ),
    "preempted": (
        LSF.format("PREEMPT: job killed after preemption."),
        LSF.format(
            "RC_RECLAIM: Job killed and requeued when an LSF resource connector "
            "execution host is reclaimed by EC2"
        ),
    ),
    "cancelled": (
        LSF.format("OWNER: job killed by owner."),
        LSF.format(
            "REQUEUE_ADMIN: job killed and requeued by root or LSF administrator."
        ),
        "11/20/2026 12:00:00;0008;PBS_Server;Job;50917.head1;Job deleted at request of "
        "ada@login1\n",
        "ada has registered the job 50917 for deletion\n",
        "12.345s: job.exception type=cancel severity=0\n",
    ),
}


@pytest.mark.parametrize(
    ("slug", "text"), [(slug, text) for slug, texts in LIMITS.items() for text in texts]
)
def test_a_batch_system_says_why_it_ended_a_job(analyzed, slug, text):
    assert verdict(analyzed({"job.err": text}))[:2] == (slug, ())


@pytest.mark.parametrize(
    "text",
    [
        "11/20/2026 12:00:00|  main|gpu0001|W|job 50917.1 exceeded soft wallclock time - "
        "initiate soft notify method\n",
        "11/20/2026 12:00:00;0008;PBS_Server;Job;50917.head1;Job deleted at request of "
        "maui@head1\n",
        LSF.format("EXTERNAL_SIGNAL: job killed by a signal external to LSF."),
        "12.3s: job.exception type=exec severity=0 rank 3 on host gpu0001 exited and "
        "exit-timeout=30s has expired\n",
    ],
)
def test_a_warning_or_an_unknown_hand_is_no_reason(analyzed, text):
    assert verdict(analyzed({"job.err": text})) in ("inconclusive", "no-failure")


def test_grid_engine_names_the_host_of_a_job_without_memory(analyzed):
    line = (
        "11/20/2026 12:00:00|  main|gpu0001|W|job 50917 exceeds job hard limit "
        '"h_vmem" of queue "gpu.q@gpu0001" (52428800.00000 > limit:42949672.96000) - '
        "sending SIGKILL\n"
    )
    assert verdict(analyzed({"messages": line})) == ("host-oom", (), ("gpu0001",))


@pytest.mark.parametrize(
    "line",
    [
        "=>> PBS: job killed: node 1 (gpu0002) requested job terminate, 'EOF' (code 1099) "
        "- received SISTER_EOF attempting to communicate with sister MOM's\n",
        "3600.512s: job.exception type=exec severity=0 lost contact with job shell on "
        "broker gpu0002 (rank 3)\n",
    ],
)
def test_a_daemon_that_a_batch_system_lost_is_likely_its_node(analyzed, line):
    analysis = analyzed({"job.err": line})
    assert verdict(analysis) == ("node-lost", (), ("gpu0002",))
    assert analysis.ranked.verdict.confidence == "likely"


@pytest.mark.parametrize(
    "line",
    [
        "requeue job JobId=50917 due to failure of node gpu0002",
        "validate_node_specs: Node gpu0002 unexpectedly rebooted boot_time=1795000000 "
        "last response=1794999000",
    ],
)
def test_slurmctld_names_the_node_that_failed(analyzed, line):
    text = f"[2026-11-20T12:00:00.123] {line}\n"
    told = verdict(analyzed({"slurmctld.log": text}))
    assert told == ("node-lost", (), ("gpu0002",))


STEP = (
    "{}srun: Job step aborted: Waiting up to 62 seconds for job step to finish.\n"
    "{}slurmstepd: error: *** STEP 50917.0 ON gpu0001 CANCELLED AT 2026-11-20T09:52:10 "
    "***\nsrun: forcing job termination\n"
)
CONTINUED = "srun: got SIGCONT\n"
FAILED = "srun: error: gpu0001: task 3: Exited with exit code 1\n"


def test_a_step_is_cancelled_with_its_job_if_slurm_signals_srun_itself(analyzed):
    told = verdict(analyzed({"job.err": STEP.format("", CONTINUED)}))
    assert told == ("cancelled", (), ())


@pytest.mark.parametrize("told", [("", ""), (FAILED, CONTINUED)])
def test_a_step_alone_may_have_lost_a_task(analyzed, told):
    found = analyzed({"job.err": STEP.format(*told)}).ranked.findings
    assert "cancelled" not in [f.slug for _, f in found]
