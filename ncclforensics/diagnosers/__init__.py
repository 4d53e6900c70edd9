"""One failure class per module: frames in, findings out. `ORDER` lists the modules.

A module's docstring is the only documentation of its class. Its constants say:

- `FAMILY`: the kind of cause, one of `FAMILIES`
- `NEEDS`: the evidence it reads, as names of frames or prefixes of message ids
- `MISSING`, `NEXT_TIME`: what to report as missing without it, and what to collect
- `EXPLAINS`: the classes whose findings may be its effects
- `SPREADS`: whether it also explains findings on other ranks; a crash only explains the
  absence of its own rank
- `TOLD_WITHIN_S`, optional: how many seconds after its onset it may first be reported
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ncclforensics.diagnosers.domains import DOMAINS, VARIANTS, Lies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

# the order in which equally likely roots are reported: what explains most comes first
ORDER = (
    "time_limit",
    "preempted",
    "host_fault",
    "node_lost",
    "cancelled",
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
    "storage_stall",
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
    "slow_rank",
    "timeout_masking",
)

# the most frequent kind of cause of a hang first, according to public reports
FAMILIES = ("desync", "dead-rank", "runtime", "network", "platform", "launch")

# a failure is in some log after so many seconds: agents poll, and clocks differ
TOLD_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Diagnoser:
    """One failure class: its name, its documentation, and how to look for it."""

    slug: str
    family: str
    domain: str
    restart: str
    variants: Mapping[str, Lies]
    doc: str
    needs: tuple[str, ...]
    missing: str
    next_time: str
    explains: tuple[str, ...]
    spreads: bool
    told_within_s: int
    diagnose: Callable[[Frames], Iterable[Statement]]


def _of(module: ModuleType) -> Diagnoser:
    slug = module.__name__.rpartition(".")[2].replace("_", "-")
    domain, restart = DOMAINS[slug]
    return Diagnoser(
        slug=slug,
        family=module.FAMILY,
        domain=domain,
        restart=restart,
        variants=VARIANTS.get(slug, {}),
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
