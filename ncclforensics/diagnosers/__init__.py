"""One failure class per module: frames in, findings out. Listed by hand, in order.

A module's docstring is its class's only documentation; its constants say what it needs
to see (`NEEDS`: frames, or prefixes of message ids), what to collect where that is
absent, which classes its findings explain (`EXPLAINS`), and whether those of other
ranks as well (`SPREADS`): a crash explains the absence of its own rank only. A class
that others notice late says how late (`TOLD_WITHIN_S`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncclforensics.diagnosers import (
    call_order_deadlock,
    collective_mismatch,
    crashed_rank,
    disk_full,
    driver_mismatch,
    duplicate_gpu,
    elastic_below_min,
    fabric_manager,
    gil_deadlock,
    gpu_fault,
    gpu_oom,
    gpu_stall,
    host_oom,
    ib_error,
    inconsistent_env,
    missing_env,
    missing_rank,
    mtu_mismatch,
    nccl_version_mismatch,
    node_lost,
    p2p_blocked,
    port_in_use,
    preempted,
    questions,
    rank_conditional_collective,
    rendezvous_failed,
    restart_lost_state,
    shape_mismatch,
    shm_exhausted,
    slow_network,
    socket_error,
    split_rendezvous,
    straggler,
    stuck_in_collective,
    thermal_throttle,
    time_limit,
    timeout_masking,
    uneven_inputs,
    unmatched_p2p,
    unreachable_peer,
    unused_parameters,
    wrong_nic,
)
from ncclforensics.findings import Finding, NotChecked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

    from ncclforensics.findings import Statement
    from ncclforensics.frames import Frames

# the order in which equally likely roots are reported: what explains most comes first
MODULES = (
    time_limit,
    preempted,
    node_lost,
    missing_env,
    port_in_use,
    gpu_fault,
    host_oom,
    fabric_manager,
    driver_mismatch,
    duplicate_gpu,
    nccl_version_mismatch,
    shm_exhausted,
    disk_full,
    wrong_nic,
    p2p_blocked,
    inconsistent_env,
    gpu_oom,
    unused_parameters,
    collective_mismatch,
    shape_mismatch,
    call_order_deadlock,
    gpu_stall,
    gil_deadlock,
    uneven_inputs,
    restart_lost_state,
    ib_error,
    crashed_rank,
    elastic_below_min,
    split_rendezvous,
    rendezvous_failed,
    rank_conditional_collective,
    straggler,
    missing_rank,
    unmatched_p2p,
    stuck_in_collective,
    mtu_mismatch,
    unreachable_peer,
    socket_error,
    thermal_throttle,
    slow_network,
    timeout_masking,
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


CLASSES: Mapping[str, Diagnoser] = {d.slug: d for d in map(_of, MODULES)}


def diagnose(
    frames: Frames,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
) -> Iterator[Statement]:
    """Run the diagnosers of the classes wanted, each if it has anything to see.

    Then come the answers to what everybody asks, and at last what could not be checked
    for want of any evidence; both in the order in which it most often would have told.
    """
    told: list[Statement] = []
    blind: list[Statement] = []
    wanted = [c for c in CLASSES if (not select or c in select) and c not in ignore]
    for diagnoser in map(CLASSES.__getitem__, wanted):
        lacking = NotChecked(diagnoser.slug, diagnoser.missing, diagnoser.next_time)
        seeing = can_see(frames, diagnoser.needs)
        statements = list(diagnoser.diagnose(frames)) if seeing else [lacking]
        (blind if lacking in statements else told).extend(statements)
    # what one class says of itself is better than the answer to a general question
    said = {s.slug for s in told if not isinstance(s, Finding)}
    answers = [s for s in questions.asked(frames, told) if s.slug in wanted]
    answers = [s for s in answers if s.slug not in said]
    answered = {s.slug for s in answers}
    yield from told
    yield from sorted(answers, key=lambda s: FAMILIES.index(CLASSES[s.slug].family))
    for own in sorted(blind, key=lambda s: FAMILIES.index(CLASSES[s.slug].family)):
        if own.slug not in answered:
            yield own


def can_see(frames: Frames, needs: tuple[str, ...]) -> bool:
    """Whether any of these frames has rows, or any message of these ids was read."""
    return any(
        frames.has(need) or any(found.startswith(need) for found in frames.messages)
        for need in needs
    )
