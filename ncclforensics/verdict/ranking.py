"""Rank the findings: the root cause, its echoes, and the outcome.

A finding that another finding caused (see `causality`) is its echo, or a witness if it
only shows how the failure became visible. The others are roots: more confident first,
then earlier, then in the order of the diagnosers. A root takes over cites from its
echoes on the same rank or host, and what they know of the call.
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
# a class that shows how the failure became visible, never why it happened
WITNESSES = ("timeout-masking",)
PLACES: tuple[Role, ...] = ("root", "witness", "echo")
UNSURE_NS = 2_000_000_000  # clocks of two hosts, and timestamps in whole seconds
MOST_FUSED = 2  # cites that a root takes over from each echo


def rank(
    statements: Iterable[object],
    classes: Mapping[str, Class],
    signs_of_failure: int,
    job: Mapping[str, object],
) -> Ranked:
    """Order the findings, merge echoes into their roots, and decide the outcome.

    `classes` are in the order in which equal findings are reported. `signs_of_failure`
    counts what a healthy job does not show. Without any finding, the outcome is
    "inconclusive" if there are such signs, else "no-failure". It is also "inconclusive"
    if the best finding settles nothing, such as one of two equal findings that are only
    possible: both are reported, and the verdict is None.
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
    """Return a finding without ranks and hosts, for interleaved logs of two jobs."""
    if not isinstance(statement, Finding):
        return statement
    return dataclasses.replace(
        statement,
        confidence="possible",
        headline=f"two jobs are mixed here, and one shows {statement.slug}",
        explanation=f"{statement.explanation} But {why}: lines of two jobs are in "
        "one file, and nothing shows which of them this is. Give the files of each "
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
        # a witness is the verdict only if there is nothing else, however sure it is
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
    """Whether all roots are only possible and name different ranks or hosts.

    Roots at two ends of the waits do not compete: both may be true.
    """
    roots = [f for role, f in placed if role == "root" and f.slug not in WITNESSES]
    unsure = [f for f in roots if f.confidence == "possible"]
    rivals = [f for f in unsure if not causality.are_apart(f, unsure[0])]
    return len(rivals) > 1 and len(unsure) == len(roots) and not _agree(rivals)


def _agree(roots: Sequence[Finding]) -> bool:
    """Whether all roots name the same ranks, or, if they name none, the same hosts."""
    return len({(f.ranks, () if f.ranks else f.hosts) for f in roots}) == 1


def _fused(
    root: int, findings: Sequence[Finding], brought: Sequence[int | None]
) -> Finding:
    """Return a root with what its echoes on the same rank or host add to it."""
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
    # the rank that died on the broken host is the rank that ran there
    there = {f.ranks for f in same if f.ranks and f.hosts and not mine.reports}
    ranks = mine.ranks or _one(there)
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
    """Whether a root caused a finding, directly or through others."""
    cause = brought[number]
    while cause is not None and cause != root:
        cause = brought[cause]
    return cause == root


def _one(sets: set[tuple[T, ...]]) -> tuple[T, ...]:
    """Return the only one of some sets; empty if they differ."""
    return next(iter(sets)) if len(sets) == 1 else ()
