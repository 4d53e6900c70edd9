"""A pod is where a process runs; the name that its processes print is the host's."""

import pytest
from nccl_text import FAILED_CHILD, init

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
    table = FAILED_CHILD.format(host="gpu0007", rank=3, local=1, pid=44)
    lines = pod(1, *table.splitlines(keepends=True))
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
