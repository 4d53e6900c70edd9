"""Where a failure of each class lies, and whether starting the job again helps.

`restart` holds HOST where the hosts of the finding are to be filled in. A class whose
cause may lie in several domains is `unknown`, unless the evidence of a finding shows
more: its `variant` then is one of those that VARIANTS has for its class.
"""

from __future__ import annotations

from typing import NamedTuple

from ncclforensics.evidence.pods import NO_IMAGE, NO_ROOM
from ncclforensics.model.findings import HOST

YES, UNKNOWN = "yes", "unknown"
CODE = "not before the code is changed"
SETUP = "not before the setup is changed"
DRAIN = f"after draining {HOST}"


class Lies(NamedTuple):
    """Where a failure lies, whether to start again, and which evidence shows that."""

    domain: str
    restart: str
    shown_by: str


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

PROGRAM, SETTING, OWN_CHECK = "program", "setting", "own-check"
LOADER = "loader"

VARIANTS: dict[str, dict[str, Lies]] = {
    "crashed-rank": {
        PROGRAM: Lies("user-code", CODE, "all ranks raise the same exception"),
        SETTING: Lies(
            "launch",
            SETUP,
            "all ranks raise the same OSError or ImportError, or torch was built "
            "without a part: what they open, connect to, import or use is not there",
        ),
        OWN_CHECK: Lies(
            "user-code",
            UNKNOWN,
            "the rank raises what Python or an assertion finds wrong in its own data: "
            "a type, a value, a key, an index",
        ),
    },
    "rendezvous-failed": {
        NO_ROOM: Lies("scheduler", UNKNOWN, "no node has room for a pod of the job"),
        NO_IMAGE: Lies("launch", SETUP, "the container of a pod cannot be made"),
    },
    "storage-stall": {
        LOADER: Lies(
            UNKNOWN,
            UNKNOWN,
            "a data loader timed out, and nothing shows that its storage is at fault",
        ),
    },
}
