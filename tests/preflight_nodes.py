"""Facts of a healthy node, to be changed by a test."""

import copy

from ncclforensics.preflight.results import Facts

ETH = {
    "name": "eth0",
    "address": "10.0.0.1",
    "has_ipv6": False,
    "mtu": 9000,
    "up": True,
    "state": "up",
    "speed": 100000,
    "is_device": True,
}
LO = ETH | {"name": "lo", "address": "127.0.0.1", "mtu": 65536, "speed": None}
IB = {
    "device": "mlx5_0",
    "port": "1",
    "state": "ACTIVE",
    "physical": "LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "layer": "InfiniBand",
    "firmware": "28.39.1002",
}
GPU = {"index": "0", "name": "NVIDIA H100", "driver": "550.54", "memory": "80 GiB"}
HEALTHY = {
    "host": "gpu0001",
    "unknown": {},
    "environment": {"MASTER_ADDR": "gpu0001", "NCCL_SOCKET_IFNAME": "eth"},
    "interfaces": [LO, ETH],
    "infiniband": [IB, IB | {"device": "mlx5_1"}],
    "master": {
        "name": "gpu0001",
        "port": "29500",
        "addresses": ["10.0.0.1"],
        "answer": "refused",
    },
    "limits": {"memlock": -1, "nofile": 65536},
    "shm": {"size": 64 << 30, "free": 63 << 30},
    "dumps": {
        "folder": "/logs/fr",
        "exists": True,
        "writable": True,
        "free": 100 << 30,
        "files_free": 10**6,
    },
    "clock": {"now": 1000.0, "synchronised": True, "max_error_s": 0.002},
    "versions": {"kernel": "6.1", "torch": "2.13.0", "nvidia kernel module": "550.54"},
    "gpus": [GPU] * 8,
    "fabric_manager": {"needed": True, "running": True, "seen": True},
}


def node(env=None, **changed):
    """A healthy node with other facts, and `env` on top of its environment."""
    told = copy.deepcopy(HEALTHY) | changed
    told["environment"] = {**told["environment"], **(env or {})}
    return Facts(told)


def job(many=4, **odd):
    """Healthy nodes gpu0001 …, each with an address of its own; `odd` are others."""
    nodes = {}
    for n in range(1, many + 1):
        eth = ETH | {"address": f"10.0.0.{n}"}
        nodes[f"gpu{n:04}"] = node(interfaces=[LO, eth], host=f"gpu{n:04}")
    return nodes | odd
