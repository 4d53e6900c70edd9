"""A story: a failure class, the ranks it blames, and what it costs in bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ncclforensics.theory import weights

if TYPE_CHECKING:
    from ncclforensics.theory.case import Case

Call = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """What may have happened: class `slug` at `ranks`, visible in `call`.

    `others` are the calls in which the other ranks wait. `what` distinguishes variants
    of one class. `costs` lists what speaks against the story: names of `weights` and
    how often each counts.
    """

    slug: str
    ranks: tuple[int, ...]
    call: Call | None = None
    others: tuple[Call, ...] = ()
    what: str = ""
    costs: tuple[tuple[str, float], ...] = field(default=())

    @property
    def cost(self) -> float:
        """Return the total cost in bits."""
        return sum(weights.bits(name, times) for name, times in self.costs if times > 0)


def culprits(case: Case, ranks: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """Return the costs of several culprits: further failures, and kin in each."""
    own, kin = case.units.of(ranks)
    return (("culprit", max(own - 1, 0)), ("kin", kin))
