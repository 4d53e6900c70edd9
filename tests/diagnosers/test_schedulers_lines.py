"""What PBS and submitit say of a job that they ended."""

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
