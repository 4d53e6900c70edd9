"""One failure class per module: frames in, findings out. `ORDER` lists them.

A module's docstring is its class's only documentation; its constants say what it needs
to see (`NEEDS`: frames, or prefixes of message ids), what to collect where that is
absent, which classes its findings explain (`EXPLAINS`), and whether those of other
ranks as well (`SPREADS`): a crash explains the absence of its own rank only. A class
that others notice late says how late (`TOLD_WITHIN_S`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

# the order in which equally likely roots are reported: what explains most comes first
ORDER = (
    "time_limit",
    "preempted",
    "node_lost",
    "missing_env",
    "port_in_use",
    "gpu_fault",
    "host_oom",
    "fabric_manager",
    "driver_mismatch",
    "duplicate_gpu",
    "nccl_version_mismatch",
    "shm_exhausted",
    "disk_full",
    "wrong_nic",
    "p2p_blocked",
    "inconsistent_env",
    "gpu_oom",
    "unused_parameters",
    "collective_mismatch",
    "shape_mismatch",
    "call_order_deadlock",
    "gpu_stall",
    "gil_deadlock",
    "uneven_inputs",
    "restart_lost_state",
    "ib_error",
    "crashed_rank",
    "elastic_below_min",
    "split_rendezvous",
    "rendezvous_failed",
    "rank_conditional_collective",
    "straggler",
    "missing_rank",
    "unmatched_p2p",
    "stuck_in_collective",
    "mtu_mismatch",
    "unreachable_peer",
    "socket_error",
    "thermal_throttle",
    "slow_network",
    "timeout_masking",
)

# how often a hang's cause lies there, as far as public reports tell
FAMILIES = ("desync", "dead-rank", "runtime", "network", "platform", "launch")

# after so many seconds a failure is in some log: an agent polls, and clocks differ
TOLD_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Diagnoser:
    """One failure class: its name, its documentation, and how to look for it."""

    slug: str
    family: str
    doc: str
    needs: tuple[str, ...]
    missing: str
    next_time: str
    explains: tuple[str, ...]
    spreads: bool
    told_within_s: int
    diagnose: Callable[[Frames], Iterable[Statement]]


def _of(module: ModuleType) -> Diagnoser:
    return Diagnoser(
        slug=module.__name__.rpartition(".")[2].replace("_", "-"),
        family=module.FAMILY,
        doc=module.__doc__ or "",
        needs=module.NEEDS,
        missing=module.MISSING,
        next_time=module.NEXT_TIME,
        explains=module.EXPLAINS,
        spreads=module.SPREADS,
        told_within_s=getattr(module, "TOLD_WITHIN_S", TOLD_WITHIN_S),
        diagnose=module.diagnose,
    )


CLASSES: Mapping[str, Diagnoser] = {
    diagnoser.slug: diagnoser
    for diagnoser in (_of(import_module(f"{__name__}.{name}")) for name in ORDER)
}
