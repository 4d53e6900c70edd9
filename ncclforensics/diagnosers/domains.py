"""Where a failure of each class lies, and whether starting the job again helps.

`restart` holds HOST where the hosts of the finding are to be filled in. A class whose
cause may lie in several domains is `unknown`, and its evidence does not tell more.
"""

from __future__ import annotations

from ncclforensics.model.findings import HOST

YES, UNKNOWN = "yes", "unknown"
CODE = "not before the code is changed"
SETUP = "not before the setup is changed"
DRAIN = f"after draining {HOST}"

DOMAINS: dict[str, tuple[str, str]] = {
    "gpu-fault": ("hardware", DRAIN),
    "thermal-throttle": ("hardware", DRAIN),
    "host-fault": ("hardware", DRAIN),
    "node-lost": ("hardware", DRAIN),
    "ib-error": ("network", DRAIN),
    "socket-error": ("network", UNKNOWN),
    "unreachable-peer": ("network", SETUP),
    "wrong-nic": ("network", SETUP),
    "mtu-mismatch": ("network", SETUP),
    "slow-network": ("network", UNKNOWN),
    "disk-full": ("storage", SETUP),
    "storage-stall": ("storage", UNKNOWN),
    "driver-mismatch": ("platform", SETUP),
    "fabric-manager": ("platform", DRAIN),
    "nccl-version-mismatch": ("platform", SETUP),
    "p2p-blocked": ("platform", SETUP),
    "shm-exhausted": ("platform", SETUP),
    "host-oom": ("platform", SETUP),
    "duplicate-gpu": ("launch", SETUP),
    "missing-env": ("launch", SETUP),
    "port-in-use": ("launch", SETUP),
    "inconsistent-env": ("launch", SETUP),
    "split-rendezvous": ("launch", SETUP),
    "rendezvous-failed": ("launch", UNKNOWN),
    "elastic-below-min": ("launch", UNKNOWN),
    "restart-lost-state": ("launch", SETUP),
    "time-limit": ("scheduler", YES),
    "cancelled": ("scheduler", YES),
    "preempted": ("scheduler", YES),
    "gpu-oom": ("user-code", CODE),
    "gil-deadlock": ("user-code", UNKNOWN),
    "unused-parameters": ("user-code", CODE),
    "collective-mismatch": ("user-code", CODE),
    "shape-mismatch": ("user-code", CODE),
    "call-order-deadlock": ("user-code", CODE),
    "rank-conditional-collective": ("user-code", CODE),
    "uneven-inputs": ("user-code", CODE),
    "unmatched-p2p": ("user-code", CODE),
    "crashed-rank": (UNKNOWN, UNKNOWN),
    "missing-rank": (UNKNOWN, UNKNOWN),
    "straggler": (UNKNOWN, UNKNOWN),
    "slow-rank": (UNKNOWN, UNKNOWN),
    "gpu-stall": (UNKNOWN, UNKNOWN),
    "stuck-in-collective": (UNKNOWN, UNKNOWN),
    "timeout-masking": (UNKNOWN, UNKNOWN),
}
