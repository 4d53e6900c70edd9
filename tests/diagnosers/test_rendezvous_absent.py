"""Who did not join the store is named where the store's count proves it."""

import pytest

from log_lines import xid

JOINED = (
    "[rank0]: torch.distributed.DistStoreError: Timed out after 12 seconds waiting for "
    "clients. {}/4 clients joined.\n"
)
VAIN = (
    "[rank{0}]: torch.distributed.DistNetworkError: The client socket has timed out "
    "after 11000ms while trying to connect to (127.0.0.1, 29999).\n"
)
LATER = (
    "[rank{0}]: torch.distributed.DistStoreError: wait timeout after 11000ms, keys: "
    "/default_pg/0//cpu//0/0\n"
)


def told(analyzed, *lines):
    found = analyzed({"job.log": "".join(lines)}).ranked.verdict
    assert found.slug == "rendezvous-failed"
    return found.ranks


def test_who_tried_in_vain_did_not_join(analyzed):
    others = [LATER.format(r) for r in (1, 3)]
    assert told(analyzed, JOINED.format(3), VAIN.format(2), *others) == (2,)


def test_who_prints_nothing_did_not_join_if_all_others_print(analyzed):
    others = [LATER.format(r) for r in (1, 3)]
    assert told(analyzed, JOINED.format(3), *others) == (2,)


def test_where_the_count_misses_others_nobody_is_named(analyzed):
    assert told(analyzed, JOINED.format(1), VAIN.format(2)) == ()
    assert told(analyzed, JOINED.format(3), LATER.format(1)) == ()


def test_the_rank_that_serves_the_store_is_not_missing(analyzed):
    bare = [line.partition(" ")[2] for line in (JOINED.format(3), LATER.format(1))]
    found = analyzed({"worker-0.log": bare[0], "worker-1.log": bare[1]})
    assert all(0 not in finding.ranks for _, finding in found.ranked.findings)


COUNT = "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined."
CLOSED = (
    "[W1219 21:49:14.868950271 TCPStore.cpp:125] [c10d] recvValue failed on "
    "SocketImpl(fd=4, addr=[gpu-d02]:33129, remote=[gpu-d01]:29400): Failed to recv, got "
    "0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
)
EXITED = "srun: error: gpu-d0{}: task {}: Exited with exit code 1\n"


def steps_of_srun(*spoke):
    """Four tasks of one node each, of which some print what torch says."""
    said = "".join(f"{task}: {CLOSED if task else COUNT}\n" for task in spoke)
    return said + "".join(EXITED.format(task + 1, task) for task in range(4))


def test_the_host_whose_task_prints_nothing_of_torch_did_not_join(analyzed):
    found = analyzed({"slurm.out": steps_of_srun(0, 1, 2)}).ranked.verdict
    assert (found.slug, found.hosts) == ("rendezvous-failed", ("gpu-d04",))


def test_of_two_such_hosts_the_count_tells_none(analyzed):
    assert analyzed({"slurm.out": steps_of_srun(0, 1)}).ranked.verdict.hosts == ()


VAIN_AT = (
    "[W1128 14:57:52.364181142 socket.cpp:764] [c10d] The client socket has failed to "
    "connect to 10.42.7.11:29400 (errno: 113 - No route to host).\n"
)


@pytest.mark.parametrize(("joined", "hosts"), [(3, ("gpu0002",)), (2, ())])
def test_the_host_that_reaches_no_store_did_not_join_it(analyzed, joined, hosts):
    logs = {"gpu0001.log": JOINED.format(joined), "gpu0002.log": VAIN_AT}
    found = analyzed(logs | {"a.log": xid(31), "b.log": xid(31, host="gpu0002")})
    finding = next(f for _, f in found.ranked.findings if f.slug == "rendezvous-failed")
    assert finding.hosts == hosts
