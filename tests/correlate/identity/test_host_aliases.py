"""The names of pods and folders are aliases of the host that processes print."""

import pytest
from nccl_text import init

from log_lines import table

SIZE = 4


def pod(number, *lines):
    return "".join(f"[pod/train-{number}/main] {line}" for line in lines)


@pytest.fixture
def hosts(analyzed):
    """Return {rank: host} of some files."""

    def run(files):
        ranks = analyzed(files).frames["ranks"]
        return dict(ranks.select("rank", "host").drop_nulls("rank").iter_rows())

    return run


def joined(rank, host):
    return init(host, 41 + rank, rank, SIZE, "COMPLETE") + "\n"


def test_a_pod_whose_process_prints_its_host_is_that_host(hosts):
    lines = pod(1, joined(1, "gpu0007"), "[rank1]: ValueError: bad sample\n")
    assert hosts({"all.log": lines})[1] == "gpu0007"


def test_lines_without_a_header_are_of_the_pods_host(analyzed):
    lines = pod(1, joined(1, "gpu0007"), "[E1120 11:30:17 x.cpp:1] [Rank 1] boom\n")
    events = analyzed({"all.log": lines}).frames["events"]
    assert events["host"].drop_nulls().unique().to_list() == ["gpu0007"]


def test_what_the_agent_prints_tells_the_host_too(hosts):
    told = table((3, 1, 44, 1), host="gpu0007")
    lines = pod(1, *told.splitlines(keepends=True))
    lines += pod(1, "[rank3]: ValueError: bad sample\n")
    assert hosts({"all.log": lines})[3] == "gpu0007"


def test_a_pod_without_a_host_name_is_called_by_its_own(hosts):
    lines = pod(1, "[rank1]: ValueError: bad sample\n")
    assert hosts({"all.log": lines})[1] == "train-1"


def test_a_pod_that_names_several_hosts_keeps_its_own_name(analyzed):
    lines = pod(1, joined(0, "gpu0001"), joined(1, "gpu0002"))
    lines += pod(1, "[rank1]: ValueError: bad sample\n")
    events = analyzed({"all.log": lines}).frames["events"]
    said = events.filter(events["message"].str.starts_with("nccl.").not_())
    assert set(said["host"]) == {"train-1"}


def test_a_rank_on_two_hosts_is_two_jobs_in_pods_as_well(analyzed):
    lines = "".join(
        pod(job, joined(rank, f"gpu000{job}"), "[rank0]: ValueError: bad sample\n")
        for rank in range(2)
        for job in (1, 2)
    )
    report = analyzed({"all.log": lines}).report
    assert report.outcome == "inconclusive"


def test_the_name_of_a_folder_is_an_alias_too(analyzed):
    told = table((0, 1, 44, 0), host="gpu0007")
    log = told + init("gpu0007", 44, 0, SIZE, "COMPLETE") + "\n" + "Killed\n"
    events = analyzed({"train-worker-0/all.log": log}).frames["events"]
    assert events["host"].drop_nulls().unique().to_list() == ["gpu0007"]


def test_another_host_that_a_line_tells_of_is_not_the_folders(analyzed):
    log = "slurmctld: error: Nodes gpu0002 not responding, setting DOWN\n"
    log += "[rank1]: ValueError: bad sample\n"
    ranks = analyzed({"gpu0001/all.log": log}).frames["ranks"]
    assert ranks.select("rank", "host").rows() == [(1, "gpu0001")]


def test_a_file_is_of_the_host_in_its_name_that_other_evidence_knows(hosts):
    files = {
        "agent.log": joined(0, "birch") + joined(1, "birch-2"),
        "pretrain-birch-2.log": "[rank3]: ValueError: bad sample\n",
        "pretrain-birches.log": "[rank2]: ValueError: bad sample\n",
    }
    found = hosts(files)
    assert (found[3], found[2]) == ("birch-2", None)


SILENT = "Nov 20 11:30:17 gpu0007 kernel: nfs: server storage1 not responding\n"


def test_the_only_pod_runs_on_the_only_machine_that_is_known(hosts):
    lines = pod(1, "[rank1]: ValueError: bad sample\n")
    assert hosts({"all.log": lines, "dmesg.txt": SILENT})[1] == "gpu0007"


@pytest.mark.parametrize("more", ["pod", "machine"])
def test_of_several_pods_or_machines_none_tells_where_one_runs(hosts, more):
    lines = pod(1, "[rank1]: ValueError: bad sample\n")
    files = {"all.log": lines, "dmesg.txt": SILENT}
    if more == "pod":
        files["all.log"] += pod(2, "[rank2]: ValueError: bad sample\n")
    else:
        files["kern.log"] = SILENT.replace("gpu0007", "gpu0008") * 2
    assert hosts(files)[1] == "train-1"
