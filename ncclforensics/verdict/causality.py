"""Which finding caused which: edges from causes to their effects.

An edge needs three things. First, the class of the cause explains the class of the
effect, or befell the rank whose calls differ, and they are not at two ends of the
waits, which are independent. Second, both name the same rank or host, or one names
nobody, or the cause spreads and the effect is not proved to be a failure of its own.
Third, the effect does not precede its cause by more than clock error and reporting
delay allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.findings import Finding

QUARTER_NS = 15 * 60 * 1_000_000_000
HOUR_NS = 4 * QUARTER_NS
DAY_NS = 24 * HOUR_NS
BEFALL = ("dead-rank", "platform")  # families of what befalls a rank or its host


class Class(Protocol):
    """The properties of a failure class that causality needs."""

    @property
    def explains(self) -> Sequence[str]:
        """The classes whose findings are echoes of this class's findings."""

    @property
    def family(self) -> str:
        """The family of the class, such as "platform"."""

    @property
    def spreads(self) -> bool:
        """Whether it also explains findings on other ranks."""

    @property
    def told_within_s(self) -> int:
        """Seconds after its onset within which such a failure is first reported."""


def direct(
    findings: Sequence[Finding], classes: Mapping[str, Class]
) -> list[int | None]:
    """Return for each finding the index of the finding that caused it, or None.

    If there are several causes, it is the nearest one: the one that itself has the most
    causes.
    """
    order = list(classes)
    numbers = sorted(
        range(len(findings)),
        key=lambda n: (order.index(findings[n].slug), findings[n].first_seen or 0, n),
    )
    # if findings explain each other, even in a cycle, the first listed is the cause
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
    """Whether one finding could have caused the other."""
    entry = classes[cause.slug]
    return (
        (effect.slug in entry.explains or _is_felt(cause, effect, entry))
        and not are_apart(cause, effect)
        and _related(cause, effect, entry.spreads)
        and not _is_weaker(cause, effect)
        and not _comes_later(cause, effect, entry.told_within_s)
    )


def _is_felt(cause: Finding, effect: Finding, entry: Class) -> bool:
    """Whether what befell a rank is felt in its calls, whatever class those look like.

    A program that catches an exception goes on elsewhere than its peers.
    """
    befell = entry.family in BEFALL and entry.spreads and not cause.calls
    same = bool(effect.ranks) and {*effect.ranks} <= {*cause.ranks}
    return befell and bool(effect.calls) and same


def are_apart(one: Finding, other: Finding) -> bool:
    """Whether others wait for two findings' ranks, and neither waits for the other."""
    return bool(one.calls and other.calls) and one.calls.isdisjoint(other.calls)


def share(one: Finding, other: Finding) -> bool:
    """Whether two findings name a rank in common, or a host where ranks are unnamed."""
    if one.ranks and other.ranks:
        return bool(set(one.ranks) & set(other.ranks))
    return bool(set(one.hosts) & set(other.hosts))


def is_before(one: int | None, other: int | None, unsure: int) -> bool:
    """Whether time `one` is known to precede `other`; all in nanoseconds.

    If they differ by a whole number of quarter hours, of one hour or more, it may be
    the offset of two time zones: kernels and launchers print local time without a zone.
    """
    if one is None or other is None or other - one <= unsure:
        return False
    apart = other - one
    off = min(apart % QUARTER_NS, -apart % QUARTER_NS)
    return not (HOUR_NS - unsure <= apart < DAY_NS and off <= unsure)


def _related(cause: Finding, effect: Finding, spreads: bool) -> bool:
    """Whether `cause` could have caused `effect`, by the ranks and hosts they name."""
    if not (cause.ranks or cause.hosts) or not (effect.ranks or effect.hosts):
        return True
    if share(cause, effect) or not effect.ranks or (not cause.ranks and not spreads):
        return True
    if set(cause.hosts) & set(effect.hosts) and spreads:
        return True
    return spreads and not effect.own


def _is_weaker(cause: Finding, effect: Finding) -> bool:
    """Whether a guess that names more or no ranks would explain away what is surer."""
    named = bool(cause.ranks) and set(cause.ranks) <= set(effect.ranks)
    beyond = bool(effect.ranks) and not named
    return beyond and cause.confidence == "possible" != effect.confidence


def _comes_later(cause: Finding, effect: Finding, told_within_s: int) -> bool:
    unsure = told_within_s * 1_000_000_000
    return is_before(effect.first_seen, cause.first_seen, unsure)
