"""Which finding is the root cause, which are its echoes, and the outcome.

A finding that another one brought about (`causality`) is its echo, or a witness if it
only says how the end was seen. What is left are roots: the surer first, then the
earlier, then as the diagnosers are listed. Findings of one story are told as one: the
root has the cites of those that name the same rank, and what they know of the call.
"""

from __future__ import annotations

import dataclasses
from functools import cmp_to_key
from typing import TYPE_CHECKING, TypeVar

from ncclforensics.model.findings import Finding, NotChecked, Ranked, RuledOut
from ncclforensics.verdict import causality

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ncclforensics.model.findings import Role, Statement
    from ncclforensics.verdict.causality import Class

T = TypeVar("T")
CONFIDENCES = ("certain", "likely", "possible")
# a class that says how the end was seen, never why it came
WITNESSES = ("timeout-masking",)
PLACES: tuple[Role, ...] = ("root", "witness", "echo")
UNSURE_NS = 2_000_000_000  # clocks of two hosts, and stamps of whole seconds
MOST_FUSED = 2  # cites of an echo that its root takes over


def rank(
    statements: Iterable[object],
    classes: Mapping[str, Class],
    signs_of_failure: int,
    job: Mapping[str, object],
) -> Ranked:
    """Order the findings, join those of one story, and decide the outcome.

    `classes` are in the order in which equal findings are reported. `signs_of_failure`
    counts what a healthy job does not show: with some of it and no root, the outcome is
    "inconclusive". So it is where the best that is known are two stories that are only
    possible: both are told, and nobody is accused.
    """
    told = list(statements)
    findings = [s for s in told if isinstance(s, Finding)]
    brought = causality.direct(findings, classes)
    roles = [_role(f, c) for f, c in zip(findings, brought, strict=True)]
    order = _ordered(findings, roles, list(classes))
    place = {number: n for n, number in enumerate(order)}
    placed = tuple(
        (roles[n], _fused(n, findings, brought) if roles[n] == "root" else findings[n])
        for n in order
    )
    verdict = placed[0][1] if placed else None
    if verdict is None:
        outcome = "inconclusive" if signs_of_failure else "no-failure"
    elif placed[0][0] == "root" and not _is_open(verdict, placed):
        outcome = "failure"
    else:
        outcome = "inconclusive"
    return Ranked(
        outcome=outcome,  # type: ignore[arg-type]
        verdict=None if _are_equal(placed) else verdict,
        findings=placed,
        ruled_out=tuple(s for s in told if isinstance(s, RuledOut)),
        not_checked=tuple(s for s in told if isinstance(s, NotChecked)),
        job=job,
        causes=tuple(None if (c := brought[n]) is None else place[c] for n in order),
    )


def unnamed(statement: Statement, why: str) -> Statement:
    """Take the names off a finding of evidence that is of two jobs at once."""
    if not isinstance(statement, Finding):
        return statement
    return dataclasses.replace(
        statement,
        confidence="possible",
        headline=f"two jobs are woven together here, and one shows {statement.slug}",
        explanation=f"{statement.explanation} But {why}: lines of two jobs stand in "
        "one file, and which of them this is cannot be told. Give the files of each "
        "job alone.",
        ranks=(),
        hosts=(),
        devices=(),
    )


def _role(finding: Finding, cause: int | None) -> Role:
    if cause is None:
        return "root"
    return "witness" if finding.slug in WITNESSES else "echo"


def _ordered(
    findings: Sequence[Finding], roles: Sequence[Role], classes: Sequence[str]
) -> list[int]:
    """Return the numbers of the findings in order of blame."""

    def key(n: int) -> tuple[int, int, int, bool, int, tuple[int, ...]]:
        f = findings[n]
        # a witness rules only where there is nothing else, whatever it is sure of
        rank = PLACES.index("witness" if f.slug in WITNESSES else roles[n])
        return (
            rank,
            CONFIDENCES.index(f.confidence),
            classes.index(f.slug),
            f.first_seen is None,
            f.first_seen or 0,
            f.ranks,
        )

    def by_onset(one: int, other: int) -> int:
        if key(one)[:2] != key(other)[:2] or roles[one] != "root":
            return 0
        mine, theirs = findings[one].first_seen, findings[other].first_seen
        if causality.is_before(mine, theirs, UNSURE_NS):
            return -1
        return 1 if causality.is_before(theirs, mine, UNSURE_NS) else 0

    return sorted(sorted(range(len(findings)), key=key), key=cmp_to_key(by_onset))


def _is_open(verdict: Finding, placed: Sequence[tuple[Role, Finding]]) -> bool:
    """Whether the best finding settles nothing."""
    nobody = verdict.confidence == "possible" and not (verdict.ranks or verdict.hosts)
    return verdict.slug in WITNESSES or nobody or _are_equal(placed)


def _are_equal(placed: Sequence[tuple[Role, Finding]]) -> bool:
    """Whether two stories that are no more than possible fit equally well."""
    roots = [f for role, f in placed if role == "root" and f.slug not in WITNESSES]
    unsure = [f for f in roots if f.confidence == "possible"]
    return len(unsure) > 1 and len(unsure) == len(roots) and not _agree(unsure)


def _agree(roots: Sequence[Finding]) -> bool:
    """Whether some roots name the same ranks, and hosts where they name no rank."""
    return len({(f.ranks, () if f.ranks else f.hosts) for f in roots}) == 1


def _fused(
    root: int, findings: Sequence[Finding], brought: Sequence[int | None]
) -> Finding:
    """Return a root with what its echoes of the same rank or host know beside it."""
    mine = findings[root]
    below = [n for n in range(len(findings)) if _is_below(n, root, brought)]
    same = [findings[n] for n in below if causality.share(mine, findings[n])]
    cites = list(mine.evidence)
    for echo in same:
        places = {(cite.source, cite.line) for cite in cites if cite.line is not None}
        new = [
            cite
            for cite in echo.evidence
            if cite not in cites and (cite.source, cite.line) not in places
        ]
        cites += new[:MOST_FUSED]
    # a rank that fell on the very host that broke is the one that was on it
    ranks = mine.ranks or _one({f.ranks for f in same if f.ranks and f.hosts})
    call = mine.collective
    if call is None or call.seq is None:
        known = (f.collective for f in same if f.collective is not None)
        call = next((c for c in known if c.seq is not None), call)
    return dataclasses.replace(
        mine,
        evidence=tuple(cites),
        ranks=ranks,
        hosts=mine.hosts or _one({f.hosts for f in same if f.hosts}),
        devices=mine.devices or _one({f.devices for f in same if f.devices}),
        collective=call,
    )


def _is_below(number: int, root: int, brought: Sequence[int | None]) -> bool:
    """Whether a root brought a finding about, directly or through others."""
    cause = brought[number]
    while cause is not None and cause != root:
        cause = brought[cause]
    return cause == root


def _one(sets: set[tuple[T, ...]]) -> tuple[T, ...]:
    """Return the only one of some sets; nothing where they differ."""
    return next(iter(sets)) if len(sets) == 1 else ()
