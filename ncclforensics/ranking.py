"""Which finding is the root, which are its echoes, and what that makes of the job.

Each class says which classes it explains. A finding is an echo if a finding of such a
class could have brought it about: it names the same ranks, or one of the two names
nobody. Roots come in order of confidence, then of the diagnosers' list, then of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.findings import Finding, NotChecked, Ranked, RuledOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.findings import Role

CONFIDENCES = ("certain", "likely", "possible")
# a class that says how the end was seen, never why it came
WITNESSES = ("timeout-masking",)


def rank(
    statements: Iterable[object],
    explains: Mapping[str, Sequence[str]],
    signs_of_failure: int,
    job: Mapping[str, object],
) -> Ranked:
    """Order the findings and decide the outcome.

    `explains` maps a class to those that are its echoes, in the order in which equal
    findings are reported. `signs_of_failure` counts lines that a healthy job does not
    print: with some of them and no root, the outcome is "inconclusive".
    """
    told = list(statements)
    findings = [s for s in told if isinstance(s, Finding)]
    order = list(explains)
    roles = {id(f): _role(f, findings, explains) for f in findings}
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
        outcome = "inconclusive" if verdict.slug in WITNESSES else "failure"
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
    explains: Mapping[str, Sequence[str]],
) -> Role:
    explained = any(
        finding.slug in explains[other.slug] and _related(other, finding)
        for other in findings
        if other is not finding
        # two classes that explain each other: the one listed first is the cause
        and not (
            other.slug in explains[finding.slug]
            and list(explains).index(finding.slug) < list(explains).index(other.slug)
        )
    )
    if not explained:
        return "root"
    return "witness" if finding.slug in WITNESSES else "echo"


def _related(cause: Finding, effect: Finding) -> bool:
    """Whether `cause` could have brought `effect` about, by whom they name.

    A rank that differs from its peers makes them fail, so what the peers did is an
    echo; a crash explains the absence of its own rank only.
    """
    if cause.slug in SPREADS or not cause.ranks or not effect.ranks:
        return True
    return bool(set(cause.ranks) & set(effect.ranks))


# classes whose culprit makes other ranks crash or go missing
SPREADS = (
    *("collective-mismatch", "shape-mismatch", "gpu-oom", "fabric-manager"),
    *("wrong-nic", "missing-rank", "gpu-stall", "call-order-deadlock"),
    *("rank-conditional-collective", "unmatched-p2p"),
)
