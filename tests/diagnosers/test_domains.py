"""Where a failure lies is told by its class, and more of it by what was raised."""

import pytest

from log_lines import init, traceback

ALIKE = {
    "KeyError: 'lr'": ("user-code", "not before the code is changed"),
    "ModuleNotFoundError: No module named 'apex'": (
        *("launch", "not before the setup is changed"),
    ),
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/a'": (
        *("launch", "not before the setup is changed"),
    ),
}
ALONE = {
    "IndexError: Target 1000 is out of bounds.": "user-code",
    "RuntimeError: the widget is gone": "unknown",
    "OSError: [Errno 5] Input/output error: '/data/a'": "unknown",
}


def lies(analyzed, log):
    verdict = analyzed({"job.log": log}).report.verdict
    assert verdict.slug == "crashed-rank"
    return verdict.domain, verdict.restart


@pytest.mark.parametrize("raised", ALIKE)
def test_what_all_ranks_raise_is_of_the_program_or_of_its_setup(analyzed, raised):
    log = "".join(traceback(rank, raised) for rank in range(4))
    assert lies(analyzed, log) == ALIKE[raised]


@pytest.mark.parametrize("raised", ALONE)
def test_what_one_rank_raises_is_of_the_program_if_python_checked_it(analyzed, raised):
    log = "".join(init(rank, 4) for rank in range(4)) + traceback(2, raised)
    assert lies(analyzed, log) == (ALONE[raised], "unknown")


EVENT = "2m   Warning   {}   pod/w-1   {}\n"
NEVER = {
    EVENT.format("FailedScheduling", "0/5 nodes are available."): "scheduler",
    EVENT.format("Failed", 'Failed to pull image "reg/x:1": not found'): "launch",
    "w-1   0/1     Pending   0   5m\n": "launch",
}


@pytest.mark.parametrize("line", NEVER)
def test_a_pod_without_a_node_waits_for_the_scheduler(analyzed, line):
    verdict = analyzed({"events.txt": line}).report.verdict
    assert (verdict.slug, verdict.domain) == ("rendezvous-failed", NEVER[line])


@pytest.mark.parametrize(
    ("more", "domain"),
    [("", "unknown"), ("nfs: server 10.9.9.9 not responding, timed out\n", "storage")],
)
def test_a_data_loader_alone_does_not_show_that_storage_is_at_fault(
    analyzed, more, domain
):
    log = traceback(0, "RuntimeError: DataLoader timed out after 600 seconds")
    kernel = f"Mar 12 08:00:01 gpu0001 kernel: {more}" if more else "\n"
    verdict = analyzed({"rank0.log": log, "kern.log": kernel}).report.verdict
    assert (verdict.slug, verdict.domain) == ("storage-stall", domain)
