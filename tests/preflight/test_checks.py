"""Each check fails on its fault, is good on a healthy node, and knows its look-alike."""

import inspect

import pytest

from ncclforensics.preflight import checks_machine, checks_network
from ncclforensics.preflight.flight import CHECKS
from ncclforensics.preflight.results import Facts, remedy, run
from preflight_nodes import ETH, GPU, IB, LO, node

BOND = ETH | {"name": "eth1", "mtu": 1500}
DOWN = ETH | {"up": False, "state": "down"}
IDLE = IB | {"device": "mlx5_9", "state": "DOWN"}
MASTER = {"name": "gpu0001", "port": "29500", "addresses": ["10.0.0.1"]}
DUMPS = {
    "folder": "/l",
    "exists": True,
    "writable": True,
    "free": 9**12,
    "files_free": -1,
}
CLOCK = {"now": 1.0, "synchronised": True, "max_error_s": 0.001}
FABRIC = {"needed": True, "running": False, "seen": True}
FR = {"TORCH_FR_DUMP_TEMP_FILE": "/l/rank_"}

network, machine = checks_network, checks_machine
CASES = [
    # check, facts, status, a word of the text
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": "ib"}), "failed", "eth0"),
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": "=eth"}), "failed", "=eth"),
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": "=eth0"}), "good", "eth0"),
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": "^lo"}), "good", "eth0"),
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": "ib,eth"}), "good", "eth0"),
    (network.socket_interface, node({"NCCL_SOCKET_IFNAME": ""}), "good", "not set"),
    (
        network.socket_interface,
        node(interfaces=[LO, ETH | {"address": ""}]),
        "failed",
        "no address",
    ),
    (
        network.gloo_interface,
        node({"GLOO_SOCKET_IFNAME": "eth"}),
        "failed",
        "no eth here",
    ),
    (network.gloo_interface, node({"GLOO_SOCKET_IFNAME": "eth0"}), "good", "eth0"),
    (network.link_up, node(interfaces=[LO, DOWN]), "failed", "eth0 is down"),
    # a port that nobody uses is down everywhere
    (
        network.link_up,
        node(interfaces=[LO, ETH, DOWN | {"name": "eno2"}]),
        "good",
        "eth0",
    ),
    (
        network.link_up,
        node({"NCCL_SOCKET_IFNAME": ""}, interfaces=[DOWN]),
        "failed",
        "no interface is up",
    ),
    (network.mtu, node(interfaces=[LO, ETH, BOND]), "failed", "eth1 1500"),
    # networks of different purpose have MTUs of their own
    (network.mtu, node({"NCCL_SOCKET_IFNAME": ""}, interfaces=[ETH, BOND]), "good", ""),
    (network.infiniband_ports, node(infiniband=[IDLE]), "failed", "DOWN"),
    (network.infiniband_ports, node(infiniband=[IB, IDLE]), "warning", "mlx5_9"),
    (
        network.infiniband_ports,
        node({"NCCL_IB_HCA": "mlx5"}, infiniband=[IB, IDLE]),
        "failed",
        "mlx5_9",
    ),
    (network.infiniband_ports, node({"NCCL_IB_HCA": "bnxt"}), "failed", "mlx5_0"),
    (network.infiniband_ports, node(infiniband=[]), "unknown", "no InfiniBand"),
    (
        network.master,
        node(master=MASTER | {"addresses": [], "answer": "Name or service not known"}),
        "failed",
        "does not resolve",
    ),
    (
        network.master,
        node(master=MASTER | {"answer": "No route"}),
        "failed",
        "No route",
    ),
    (network.master, node(master=MASTER | {"answer": "open"}), "warning", "in use"),
    (
        network.master,
        node(master=MASTER | {"addresses": ["127.0.1.1"], "answer": "refused"}),
        "warning",
        "127.0.1.1",
    ),
    (network.master, node(master={}), "unknown", "not set"),
    (
        machine.shared_memory,
        node(shm={"size": 64 << 20, "free": 64 << 20}),
        "failed",
        "",
    ),
    (machine.room_for_dumps, node(dumps=DUMPS | {"free": 1 << 20}), "failed", "/l"),
    (machine.room_for_dumps, node(dumps=DUMPS | {"files_free": 0}), "failed", "/l"),
    (
        machine.room_for_dumps,
        node(dumps=DUMPS | {"writable": False}),
        "failed",
        "written",
    ),
    (
        machine.room_for_dumps,
        node(FR, dumps=DUMPS | {"exists": False}),
        "failed",
        "exist",
    ),
    # torch creates its own default folder
    (machine.room_for_dumps, node(dumps=DUMPS | {"exists": False}), "good", "/l"),
    (machine.open_files, node(limits={"nofile": 512}), "failed", "512"),
    (
        machine.open_files,
        node({"WORLD_SIZE": "4096"}, limits={"nofile": 1024}),
        "failed",
        "",
    ),
    (
        machine.open_files,
        node({"WORLD_SIZE": "64"}, limits={"nofile": 1024}),
        "good",
        "",
    ),
    (machine.locked_memory, node(limits={"memlock": 65536}), "failed", "64 KiB"),
    (
        machine.locked_memory,
        node(limits={"memlock": 65536}, infiniband=[]),
        "unknown",
        "InfiniBand",
    ),
    (machine.clock, node(clock=CLOCK | {"synchronised": False}), "warning", "not sync"),
    (machine.clock, node(clock=CLOCK | {"max_error_s": 3.0}), "warning", "3 s"),
    (machine.clock, node(clock={"now": 1.0}), "unknown", ""),
    (machine.gpus, node(gpus=[]), "failed", "no GPU"),
    (
        machine.gpus,
        node({"SLURM_GPUS_ON_NODE": "8"}, gpus=[GPU] * 7),
        "failed",
        "7 GPUs",
    ),
    # a job that was given a part of the node
    (machine.gpus, node({"SLURM_GPUS_ON_NODE": "2"}), "good", "8 NVIDIA"),
    (machine.gpus, node(gpus=[], versions={}), "unknown", "no NVIDIA driver"),
    (machine.fabric_manager, node(fabric_manager=FABRIC), "failed", "nv-fabricmanager"),
    (
        machine.fabric_manager,
        node(fabric_manager=FABRIC | {"seen": False}),
        "unknown",
        "container",
    ),
    (
        machine.fabric_manager,
        node(fabric_manager=FABRIC | {"needed": False}),
        "unknown",
        "no NVSwitch",
    ),
]


@pytest.mark.parametrize(("check", "facts", "status", "word"), CASES)
def test_a_check(check, facts, status, word):
    found = run(check, facts)
    assert (found.status, word in found.text) == (status, True), found
    assert bool(found.do) is (status in ("failed", "warning"))


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_node_is_good_and_a_silent_one_unknown(check):
    assert run(check, node()).status == "good"
    missing = run(check, Facts({"unknown": {"environment": "x"}}))
    assert missing.status == "unknown"
    assert run(check, Facts(dict.fromkeys(node()._told, "damaged"))).status != "failed"


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_says_what_why_and_what_to_do(check):
    what, why, *_ = (inspect.getdoc(check) or "").split("\n\n")
    assert what.endswith(".")
    assert not why.startswith("Do:")
    assert remedy(check)


def test_every_check_has_a_case_that_fails_or_warns():
    tried = {check for check, _, status, _ in CASES if status in ("failed", "warning")}
    assert tried == set(CHECKS)
