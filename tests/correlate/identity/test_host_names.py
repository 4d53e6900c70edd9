"""Files that are named by their hosts, and the ranks of a host that no line names."""

import pytest

from log_lines import init, table, timeout, verdict

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.12 GiB. GPU 1 has "
    "a total capacity of 79.11 GiB of which 3.44 GiB is free.\n"
)
PANIC = "[412113.0040] Kernel panic - not syncing: Fatal machine check\n"


def agents(*hosts, each=2):
    """A torchrun log of each host, named by it, whose ranks aborted."""
    return {
        f"{host}.log": table(
            *((r, -6, 4000 + r, r % each) for r in range(first, first + each)),
            host=host,
        )
        for host, first in hosts
    }


def test_a_file_named_as_the_hosts_files_are_is_of_a_host(analyzed):
    files = agents(("neo-1", 0), ("neo-3", 4))
    found = analyzed({**files, "neo-2_console.log": PANIC})
    assert verdict(found) == ("host-fault", (2, 3), ("neo-2",))


def test_files_are_named_by_hosts_without_the_domain_that_agents_print(analyzed):
    files = agents(("neo-1", 0), ("neo-3", 4))
    long = {n: t.replace("neo-", "neo-x-") for n, t in files.items()}  # other names
    files = {
        n: t.replace("neo-1", "neo-1.lab").replace("neo-3", "neo-3.lab")
        for n, t in files.items()
    }
    found = analyzed({**files, "neo-2-serial-console.log": PANIC})
    assert verdict(found) == ("host-fault", (2, 3), ("neo-2",))
    assert verdict(analyzed({**long, "neo-2_console.log": PANIC}))[2] == ()


@pytest.mark.parametrize(("name", "hosts"), [("neo-x-{}", True), ("gpu{}", False)])
def test_a_file_named_as_hosts_are_is_of_a_host_unless_a_device_has_such_a_name(
    analyzed, name, hosts
):
    files = agents((name.format(1), 0), (name.format(3), 4))
    job = {"job.log": "".join(files.values())}
    third = name.format(2)
    found = analyzed({**job, f"{third}_console.log": PANIC})
    assert verdict(found)[2] == ((third,) if hosts else ())


CLIENT = (
    "[E1128 06:31:11.402110331 socket.cpp:1019] [c10d] The client socket has timed out "
    "after 60000ms while trying to connect to (trainer-0.trainer, 29500).\n"
)
SERVER = (
    "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for "
    "clients. 3/4 clients joined.\n"
)


@pytest.mark.parametrize(
    ("name", "hosts"), [("trainer-{}", ("trainer-2",)), ("part-{}", ())]
)
def test_files_named_as_the_stores_host_are_of_hosts(analyzed, name, hosts):
    lost = "torch.distributed.DistNetworkError: failed to recv, got 0 bytes\n"
    logs = [SERVER, lost, CLIENT, lost]
    files = {f"{name.format(n)}.log": text for n, text in enumerate(logs)}
    assert verdict(analyzed(files)) == ("rendezvous-failed", (), hosts)


def test_a_name_unlike_theirs_is_no_host(analyzed):
    files = agents(("neo-1", 0), ("neo-3", 4))
    found = analyzed({**files, "ward-2_console.log": PANIC})
    assert verdict(found)[2] == ()


def test_one_file_makes_no_habit(analyzed):
    found = analyzed({**agents(("neo-1", 0)), "neo-2_console.log": PANIC})
    assert verdict(found)[2] == ()


def test_of_two_blocks_that_are_left_neither_is_the_hosts(analyzed):
    files = agents(("neo-1", 0), ("neo-4", 6))
    found = analyzed({**files, "neo-2_console.log": PANIC})
    assert verdict(found) == ("host-fault", (), ("neo-2",))


def test_what_a_site_puts_before_a_host_in_a_files_name_is_no_part_of_it(analyzed):
    files = agents(("neo1", 0), ("neo2", 2))
    found = analyzed({f"out.{name}": text for name, text in files.items()})
    hosts = found.frames["ranks"].sort("rank")["host"].to_list()
    assert hosts == ["neo1", "neo1", "neo2", "neo2"]


def agent_of(host, first):
    ranks = range(first, first + 4)
    return "".join(map(timeout, ranks)) + table(
        *((rank, -6, 4000 + rank, rank % 4) for rank in ranks), host=host
    )


NAMES = ("node{}.log", "slurm-77-gpu{}.out", "ml_gpu{}_4f/0.log")


@pytest.mark.parametrize("name", NAMES)
def test_the_host_that_an_agent_prints_is_that_of_its_file(analyzed, name):
    files = {name.format(n): agent_of(f"gpu{n}", 4 * n) for n in range(3)}
    analysis = analyzed(files)
    hosts = dict(analysis.frames["ranks"].select("rank", "host").iter_rows())
    assert hosts == {rank: f"gpu{rank // 4}" for rank in range(12)}
    assert "mixed" not in analysis.ranked.outcome
    events = analysis.frames["events"]["host"].drop_nulls().unique()
    assert {*events} == {"gpu0", "gpu1", "gpu2"}


def test_a_file_that_holds_the_name_of_a_known_host_is_of_that_host(analyzed):
    files = {f"slurm-77-gpu{n}.out": agent_of(f"gpu{n}", 4 * n) for n in range(2)}
    silent = "".join(f"[rank {rank}] step 9 loss 2.5\n" for rank in range(8, 12))
    lost = {"sinfo.txt": "srun: error: Node failure on gpu2\n"}
    found = analyzed(files | {"slurm-77-gpu2.out": silent} | lost).ranked.verdict
    assert (found.slug, found.ranks) == ("node-lost", (8, 9, 10, 11))


@pytest.mark.parametrize(
    "name", ["XXXXXX", "xxxxx", "hostname", "REDACTED", "host_unknown", "unknown"]
)
def test_what_somebody_wrote_over_a_name_is_no_host(analyzed, name):
    event = "transport/net_ib.cc:88 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
    found = analyzed({"a.log": f"{name}:5121:5470 [3] {event}\n"})
    assert (found.ranked.verdict.slug, found.ranked.verdict.hosts) == ("ib-error", ())
    assert found.report.job.hosts == ()


@pytest.mark.parametrize(("other", "host"), [("gpu0001", "gpu0001"), ("gpu0002", None)])
def test_lines_without_a_host_are_of_the_one_that_the_files_name_tells(
    analyzed, other, host
):
    """Unless another one speaks in that file."""
    log = init(0, 2, host=other) + init(1, 2, host=other) + "epoch 1\n" + OOM
    found = analyzed({"gpu0001.log": log, "b.log": init(0, 2)})
    assert found.frames.message("python.cuda_oom")["host"].to_list() == [host]
