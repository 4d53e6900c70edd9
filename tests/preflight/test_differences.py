"""The odd node is named by the majority; without one nobody is."""

import pytest

from ncclforensics.preflight import between
from ncclforensics.preflight.differences import differences
from preflight_nodes import ETH, GPU, IB, LO, job, node


def named(nodes):
    return {d.what: (d.status, d.nodes) for d in differences(nodes)}


def other(**changed):
    eth = ETH | {"address": "10.0.0.9", **changed}
    return node(interfaces=[LO, eth])


def test_equal_nodes_do_not_differ():
    assert differences(job(4)) == []
    assert differences(job(1)) == []


@pytest.mark.parametrize(
    ("odd", "what", "status"),
    [
        (other(mtu=1500), "MTU of eth0", "failed"),
        (other(speed=25000), "speed of eth0 in Mb/s", "failed"),
        (other(name="ens1", mtu=9000), "interface", "warning"),
        (node({"NCCL_ALGO": "Ring"}), "NCCL_ALGO", "failed"),
        (node({"MASTER_ADDR": "gpu0009"}), "MASTER_ADDR", "failed"),
        (node({"OMP_NUM_THREADS": "4"}), "OMP_NUM_THREADS", "warning"),
        (node({"NCCL_IB_HCA": "mlx5_2"}), "NCCL_IB_HCA", "warning"),
        (node(gpus=[GPU] * 7), "GPUs", "failed"),
        (node(infiniband=[IB]), "active InfiniBand ports", "failed"),
        (node(versions={"torch": "2.12.0", "kernel": "6.1"}), "torch", "failed"),
        (node(limits={"memlock": -1, "nofile": 1024}), "ulimit of nofile", "warning"),
    ],
)
def test_the_odd_node_is_named_with_what_differs(odd, what, status):
    assert named(job(4, odd=odd))[what] == (status, ("odd",))


def test_what_each_node_has_for_itself_is_no_difference():
    own = ("RANK", "SLURM_NODEID", "SLURM_JOB_NODELIST", "HOSTNAME", "RAY_NODE_ID")
    nodes = {f"n{n}": node(dict.fromkeys(own, str(n))) for n in range(4)}
    assert differences(nodes) == []


def test_of_two_that_differ_nobody_is_odd():
    (found,) = differences({"a": other(), "b": other(mtu=1500)})
    assert (found.status, found.nodes) == ("failed", ())
    assert found.text == "1500 on b; 9000 on a"


def test_a_fact_that_a_node_does_not_tell_is_no_difference():
    silent = node()
    del silent._told["gpus"], silent._told["interfaces"]
    assert differences(job(3, silent=silent)) == []


def times(nodes, now):
    return dict.fromkeys(nodes, (now - 1, now))


def test_a_clock_is_off_if_its_time_is_outside_of_when_it_was_asked():
    nodes = job(3, late=node(clock={"now": 1000.0 - 60}))
    (found,) = between.clocks(nodes, times(nodes, 1000.5))
    assert (found.status, found.nodes) == ("failed", ("late",))
    # a slow answer proves nothing
    slow = dict.fromkeys(nodes, (900.0, 1000.5))
    assert between.clocks(nodes, slow) == []


def test_where_most_clocks_differ_it_is_the_one_here():
    nodes = job(3)
    (found,) = between.clocks(nodes, times(nodes, 5000.0))
    assert (found.status, found.nodes) == ("warning", ())


def asked(pairs, many=4):
    """Nodes that ping the two behind them; `pairs` are (from, to, answer)."""
    nodes = job(many)
    addresses = between.ring(nodes)
    names = list(nodes)
    told = dict.fromkeys(
        ((names[n], names[(n + s) % many]) for n in range(many) for s in (1, 2)), "good"
    )
    told |= {(f"gpu000{a}", f"gpu000{b}"): answer for a, b, answer in pairs}
    for name in names:
        rows = [(b, answer) for (a, b), answer in told.items() if a == name]
        nodes[name]._told["reached"] = [
            {"address": addresses[b], "answer": answer, "why": ""} for b, answer in rows
        ]
    return between.reach(nodes, addresses)


def test_a_node_that_nobody_reaches_is_odd():
    pairs = [(1, 3, "none"), (2, 3, "none"), (3, 4, "none"), (3, 1, "none")]
    (found,) = asked(pairs)
    assert (found.what, found.nodes) == ("reach", ("gpu0003",))


def test_a_node_that_is_reached_one_way_is_odd_where_others_are_reached():
    (found,) = asked([(1, 3, "narrow"), (2, 3, "narrow")])
    assert found.nodes == ("gpu0003",)
    assert "small packets only" in found.text


def test_one_failed_pair_has_two_ends_and_names_nobody():
    (found,) = asked([(1, 3, "none")])
    assert (found.status, found.nodes) == ("failed", ())


def test_where_nobody_reaches_anybody_nobody_is_odd():
    pairs = [(n, (n + s - 1) % 4 + 1, "none") for n in range(1, 5) for s in (1, 2)]
    (found,) = asked(pairs)
    assert found.nodes == ()


def test_a_ping_that_could_not_be_asked_is_no_failure():
    assert asked([(1, 2, "unknown")]) == []
