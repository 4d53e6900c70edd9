"""Which finding is the root, which are its echoes, and what that makes of the job.

Each class says which classes it explains. A finding is an echo if a finding of such a
class could have brought it about: it names the same ranks, or one of the two names
nobody. Roots come in order of confidence, then of the diagnosers' list, then of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ncclforensics.findings import Finding, NotChecked, Ranked, RuledOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.findings import Role

CONFIDENCES = ("certain", "likely", "possible")
# a class that says how the end was seen, never why it came
WITNESSES = ("timeout-masking",)


class Class(Protocol):
    """What the ranking has to know of a failure class."""

    @property
    def explains(self) -> Sequence[str]:
        """The classes whose findings are echoes of this one's."""

    @property
    def spreads(self) -> bool:
        """Whether it explains those of other ranks, too."""


def rank(
    statements: Iterable[object],
    classes: Mapping[str, Class],
    signs_of_failure: int,
    job: Mapping[str, object],
) -> Ranked:
    """Order the findings and decide the outcome.

    `classes` are in the order in which equal findings are reported. `signs_of_failure`
    counts what a healthy job does not show: with some of it and no root, the outcome is
    "inconclusive".
    """
    told = list(statements)
    findings = [s for s in told if isinstance(s, Finding)]
    order = list(classes)
    roles = {id(f): _role(f, findings, classes) for f in findings}
    place: tuple[Role, ...] = ("root", "witness", "echo")
    findings.sort(
        key=lambda f: (
            place.index(roles[id(f)]),
            CONFIDENCES.index(f.confidence),
            order.index(f.slug),
            f.first_seen is None,
            f.first_seen or 0,
            f.ranks,
        )
    )
    verdict = findings[0] if findings else None
    if verdict is not None and roles[id(verdict)] == "root":
        nobody = verdict.confidence == "possible" and not (
            verdict.ranks or verdict.hosts
        )
        unsettled = verdict.slug in WITNESSES or nobody
        outcome = "inconclusive" if unsettled else "failure"
    else:
        outcome = "inconclusive" if signs_of_failure or findings else "no-failure"
    return Ranked(
        outcome=outcome,  # type: ignore[arg-type]
        verdict=verdict,
        findings=tuple((roles[id(f)], f) for f in findings),
        ruled_out=tuple(s for s in told if isinstance(s, RuledOut)),
        not_checked=tuple(s for s in told if isinstance(s, NotChecked)),
        job=job,
    )


def _role(
    finding: Finding,
    findings: Sequence[Finding],
    classes: Mapping[str, Class],
) -> Role:
    order = list(classes)
    explained = any(
        finding.slug in classes[other.slug].explains
        and _related(other, finding, classes[other.slug].spreads)
        for other in findings
        if other is not finding
        # two classes that explain each other: the one listed first is the cause
        and not (
            other.slug in classes[finding.slug].explains
            and order.index(finding.slug) < order.index(other.slug)
        )
    )
    if not explained:
        return "root"
    return "witness" if finding.slug in WITNESSES else "echo"


def _related(cause: Finding, effect: Finding, spreads: bool) -> bool:
    """Whether `cause` could have brought `effect` about, by whom they name."""
    if spreads or not cause.ranks or not effect.ranks:
        return True
    return bool(set(cause.ranks) & set(effect.ranks))
