"""Which finding caused which: edges from causes to their effects.

An edge needs three things. The cause's class says that it explains the effect's; they
name the same rank or host, or one names nobody, or the cause spreads and the effect is
not proved to be a failure of its own; and the effect does not come before its cause by
more than the clocks, and those who report, can be wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.findings import Finding

QUARTER_NS = 15 * 60 * 1_000_000_000
HOUR_NS = 4 * QUARTER_NS
DAY_NS = 24 * HOUR_NS


class Class(Protocol):
    """What has to be known of a failure class."""

    @property
    def explains(self) -> Sequence[str]:
        """The classes whose findings are echoes of this one's."""

    @property
    def spreads(self) -> bool:
        """Whether it explains those of other ranks, too."""

    @property
    def told_within_s(self) -> int:
        """So many seconds after it began such a failure may first be told."""


def direct(
    findings: Sequence[Finding], classes: Mapping[str, Class]
) -> list[int | None]:
    """Return of each finding the number of the one that brought it about, or None.

    Of several causes it is the nearest: the one that has most causes before it itself.
    """
    order = list(classes)
    numbers = sorted(
        range(len(findings)),
        key=lambda n: (order.index(findings[n].slug), findings[n].first_seen or 0, n),
    )
    # two that explain each other, in a ring even: what is listed first is the cause
    above: dict[int, set[int]] = {n: set() for n in numbers}
    causes: dict[int, list[int]] = {n: [] for n in numbers}
    for cause in numbers:
        for effect in numbers:
            if effect in above[cause] or effect == cause:
                continue
            if not brings_about(findings[cause], findings[effect], classes):
                continue
            causes[effect].append(cause)
            told = {cause, *above[cause]}
            for other in numbers:
                if other == effect or effect in above[other]:
                    above[other] |= told
    return [
        max(causes[n], key=lambda c: (len(above[c]), -numbers.index(c)), default=None)
        for n in range(len(findings))
    ]


def brings_about(cause: Finding, effect: Finding, classes: Mapping[str, Class]) -> bool:
    """Whether one finding could have brought the other about."""
    entry = classes[cause.slug]
    return (
        effect.slug in entry.explains
        and _related(cause, effect, entry.spreads)
        and not _is_weaker(cause, effect)
        and not _comes_later(cause, effect, entry.told_within_s)
    )


def share(one: Finding, other: Finding) -> bool:
    """Whether two findings name a rank in common, or a host where ranks are unnamed."""
    if one.ranks and other.ranks:
        return bool(set(one.ranks) & set(other.ranks))
    return bool(set(one.hosts) & set(other.hosts))


def is_before(one: int | None, other: int | None, unsure: int) -> bool:
    """Whether a time is known to come before another, in nanoseconds.

    A distance of whole quarters of an hour from one hour on may be that of two zones:
    kernels and launchers print local times without saying so.
    """
    if one is None or other is None or other - one <= unsure:
        return False
    apart = other - one
    off = min(apart % QUARTER_NS, -apart % QUARTER_NS)
    return not (HOUR_NS - unsure <= apart < DAY_NS and off <= unsure)


def _related(cause: Finding, effect: Finding, spreads: bool) -> bool:
    """Whether `cause` could have brought `effect` about, by whom they name."""
    if not (cause.ranks or cause.hosts) or not (effect.ranks or effect.hosts):
        return True
    if share(cause, effect) or not effect.ranks or (not cause.ranks and not spreads):
        return True
    if set(cause.hosts) & set(effect.hosts) and spreads:
        return True
    return spreads and not effect.own


def _is_weaker(cause: Finding, effect: Finding) -> bool:
    """Whether a guess would explain away what is certain of somebody else."""
    apart = bool(cause.ranks and effect.ranks) and not share(cause, effect)
    return apart and (cause.confidence, effect.confidence) == ("possible", "certain")


def _comes_later(cause: Finding, effect: Finding, told_within_s: int) -> bool:
    unsure = told_within_s * 1_000_000_000
    return is_before(effect.first_seen, cause.first_seen, unsure)
