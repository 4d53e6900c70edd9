"""A table of nodes lists the whole cluster; only a lost node of this job counts."""

import pytest

from log_lines import found, init, timeout, verdict

JOB = init(0, 2) + init(1, 2, host="gpu0002")
SINFO = (
    "REASON               USER      TIMESTAMP           NODELIST\n"
    "{reason:20} slurm     2026-08-20T10:00:00 {host}\n"
)
SHOWN = (
    "NodeName={host} Arch=x86_64 CoresPerSocket=1 \n"
    "   CPUAlloc=2 CPUEfctv=4 CPUTot=4 CPULoad=8.75\n"
    "   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
    "   Reason={reason} [slurm@2026-08-20T10:00:00]\n"
)


def sinfo(host, reason="Not responding"):
    return SINFO.format(host=host, reason=reason)


def columns(host, reason="Not responding"):
    return (
        "NODELIST   STATE   REASON                 TIMESTAMP\n"
        "gpu0050    idle    none                   Unknown\n"
        f"{host:10} down*   {reason:22} 2026-08-20T10:00:00\n"
    )


def shown(host, reason="Not responding", state="DOWN*"):
    return SHOWN.format(host=host, reason=reason, state=state)


@pytest.mark.parametrize("table", [sinfo, columns, shown])
def test_a_lost_node_of_this_job_is_named(analyzed, table):
    analysis = analyzed({"job.log": JOB + timeout(0), "nodes.txt": table("gpu0002")})
    assert verdict(analysis) == ("node-lost", (1,), ("gpu0002",))


@pytest.mark.parametrize("table", [sinfo, columns, shown])
def test_a_lost_node_of_another_job_says_nothing(analyzed, table):
    analysis = analyzed({"job.log": JOB + timeout(0), "nodes.txt": table("gpu0099")})
    assert not found(analysis, "node-lost")


def test_a_node_that_was_down_days_before_cannot_be_the_jobs(analyzed):
    log = f"2026-08-24 10:00:00 {JOB}"
    stamped = log + "[2026-08-24 10:00:05] " + timeout(0)
    analysis = analyzed({"job.log": stamped, "nodes.txt": sinfo("gpu0002")})
    assert not found(analysis, "node-lost")


@pytest.mark.parametrize(
    ("reason", "state"),
    [("GPU 3 row remap failure", "IDLE+DRAIN"), ("Not responding", "IDLE")],
)
def test_a_drained_or_returned_node_is_not_lost(analyzed, reason, state):
    table = shown("gpu0002", reason, state)
    analysis = analyzed({"job.log": JOB + timeout(0), "nodes.txt": table})
    assert not found(analysis, "node-lost")


def test_where_no_host_of_the_job_is_known_a_table_is_only_possible(analyzed):
    analysis = analyzed({"nodes.txt": sinfo("gpu0002")})
    assert [f.confidence for _, f in found(analysis, "node-lost")] == ["possible"]
