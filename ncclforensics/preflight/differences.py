"""What differs between nodes: the odd node is named, by the majority of the others.

Where no value has more than half of the nodes nobody is odd, and all values are told.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ncclforensics.model.folding import name_hosts
from ncclforensics.preflight.interfaces import chosen
from ncclforensics.preflight.results import Facts, Status, UnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# what each node or rank has for itself, and what the launcher set for this very step
OWN = re.compile(
    r"(?:LOCAL_|NODE_|GROUP_|ROLE_)?RANK$|HOSTNAME$|SLURM|OMPI_|PMI|PMIX_|PRTE_"
    r"|KUBERNETES_|JOB_COMPLETION_INDEX|PYTHONHASHSEED$|RAY_|TORCHELASTIC_"
)
# what every rank has to agree on; the others may be the choice of a node
SAME = re.compile(r"MASTER_|(?:\w+_)?WORLD_SIZE$|NNODES$|(?:N|R)CCL_|TORCH_|GLOO_")
CHOICE = re.compile(
    r"(?:NCCL_SOCKET_IFNAME|NCCL_IB_HCA|GLOO_SOCKET_IFNAME|NCCL_DEBUG|NCCL_TOPO_FILE"
    r"|NCCL_GRAPH_DUMP|TORCH_FR_DUMP_TEMP|TORCH_NCCL_DEBUG_INFO)"
)
UNSET = "not set"
MOST_VALUES = 4


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: `nodes` are the odd ones, none where nobody is."""

    what: str
    status: Status
    nodes: tuple[str, ...]
    text: str
    do: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One row of what is compared: a value for each node, by `what` it is."""

    values: Callable[[Facts], Mapping[str, Any]]
    status: Callable[[str], Status]
    do: str
    absent: str | None = None  # the value of a node that tells others of this row


def _network(facts: Facts) -> Mapping[str, Any]:
    """Return names, MTUs and speeds of the interfaces that NCCL would use."""
    used = [i for i in chosen(facts) if i["name"] != "lo"]
    rows = {"interface": ", ".join(i["name"] for i in used) or "none"}
    rows |= {f"MTU of {i['name']}": i["mtu"] for i in used}
    speeds = {f"speed of {i['name']} in Mb/s": i["speed"] for i in used}
    return rows | {what: speed for what, speed in speeds.items() if speed is not None}


def _infiniband(facts: Facts) -> Mapping[str, Any]:
    ports = facts["infiniband"]
    active = Counter(p["rate"] for p in ports if p["state"] == "ACTIVE")
    rates = ", ".join(f"{many} x {rate}" for rate, many in sorted(active.items()))
    firmware = ", ".join(sorted({p["firmware"] for p in ports}))
    return {"active InfiniBand ports": rates or "none", "firmware of HCAs": firmware}


def _gpus(facts: Facts) -> Mapping[str, Any]:
    models = Counter(gpu["name"] for gpu in facts["gpus"])
    text = ", ".join(f"{many} x {name}" for name, many in sorted(models.items()))
    return {"GPUs": text or "none"}


def _environment(facts: Facts) -> Mapping[str, Any]:
    return {k: v for k, v in facts["environment"].items() if not OWN.match(k)}


def _failed(_: str) -> Status:
    return "failed"


def _warning(_: str) -> Status:
    return "warning"


def _of_variable(name: str) -> Status:
    is_shared = SAME.match(name) and not CHOICE.match(name)
    return "failed" if is_shared else "warning"


def _of_network(what: str) -> Status:
    return "warning" if what == "interface" else "failed"


def _of_version(name: str) -> Status:
    return "warning" if name in ("kernel", "python") else "failed"


def _of_infiniband(what: str) -> Status:
    return "warning" if what.startswith("firmware") else "failed"


COMPARED = (
    Compared(
        _environment,
        _of_variable,
        "set it for the whole job; see /etc/nccl.conf and ~/.bashrc of the odd node",
        UNSET,
    ),
    Compared(
        _network, _of_network, "ip -br link; ethtool IFACE, on an odd and a good node"
    ),
    Compared(
        _infiniband, _of_infiniband, "ibstat; cables and switch ports of the odd node"
    ),
    Compared(_gpus, _failed, "nvidia-smi -L; dmesg -T | grep -i xid, on the odd node"),
    Compared(
        lambda facts: facts["versions"],
        _of_version,
        "bring the odd node to the image of the others",
        "none",
    ),
    Compared(
        lambda facts: {f"ulimit of {k}": v for k, v in facts["limits"].items()},
        _warning,
        "systemctl show slurmd or containerd -p LimitNOFILE,LimitMEMLOCK",
    ),
)


def differences(nodes: Mapping[str, Facts]) -> list[Difference]:
    """Return what differs between nodes, failures first."""
    found = [one for row in COMPARED for one in _compared(row, nodes)]
    return sorted(found, key=lambda one: one.status != "failed")


def _compared(row: Compared, nodes: Mapping[str, Facts]) -> Iterator[Difference]:
    told: dict[str, Mapping[str, Any]] = {}
    for name, facts in nodes.items():
        try:
            told[name] = row.values(facts)
        except (UnknownError, KeyError, TypeError, ValueError, AttributeError):
            continue
    for what in dict.fromkeys(key for values in told.values() for key in values):
        by_value: defaultdict[str, list[str]] = defaultdict(list)
        for name, values in told.items():
            if (value := values.get(what, row.absent)) is not None:
                by_value[str(value)].append(name)
        if len(by_value) > 1:
            yield _difference(row, what, by_value)


def _difference(
    row: Compared, what: str, by_value: Mapping[str, Sequence[str]]
) -> Difference:
    ranked = sorted(by_value, key=lambda value: (-len(by_value[value]), value))
    asked = sum(map(len, by_value.values()))
    usual, *rest = ranked
    if 2 * len(by_value[usual]) <= asked:
        text = "; ".join(
            f"{v} on {name_hosts(by_value[v])}" for v in ranked[:MOST_VALUES]
        )
        return Difference(what, row.status(what), (), text, row.do)
    odd = tuple(name for value in rest for name in by_value[value])
    values = ", ".join(rest[:MOST_VALUES])
    text = f"{values}; {usual} on the other {len(by_value[usual]):,}"
    return Difference(what, row.status(what), odd, text, row.do)
