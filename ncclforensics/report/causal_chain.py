"""Converts the chain from cause to symptoms, and the onset, to the contract.

Echoes are counted and folded: a thousand watchdog timeouts are one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.model.folding import fold_ranks
from ncclforensics.report import contract as c
from ncclforensics.report.rfc3339 import rfc3339
from ncclforensics.report.sanitize import line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ncclforensics.model import findings

    Quote = Callable[[Sequence[findings.Cite]], tuple[c.Evidence, ...]]

PROSE = 400  # characters
SECOND, HOUR = 1_000_000_000, 3600


def explained_by(ranked: findings.Ranked, number: int) -> str | None:
    """Return the class of the finding that caused finding `number`, or None."""
    cause = ranked.causes[number] if number < len(ranked.causes) else None
    return None if cause is None else ranked.findings[cause][1].slug


def chain(
    ranked: findings.Ranked, course: findings.Course, quote: Quote
) -> tuple[c.Step, ...]:
    """Return the steps: the verdict, the findings it caused in turn, what was seen."""
    steps = []
    if ranked.verdict is not None and ranked.outcome == "failure":
        steps.append(_step("cause", ranked.verdict, quote))
        steps += [
            _step("spread", ranked.findings[number][1], quote)
            for number in _below(ranked)
            if ranked.findings[number][0] == "echo"
        ]
        if course.held is not None:
            steps.append(_counted("spread", course.held, course.held.meaning, quote))
    steps += [
        _counted("seen", seen, f"{seen.message}: {seen.meaning}", quote)
        for seen in course.seen
    ]
    return tuple(steps)


def _below(ranked: findings.Ranked) -> list[int]:
    """Return the numbers of the findings that the verdict caused, the nearest first."""
    depth = {0: 0}
    # a cause may be listed after its effect, so one pass is not enough
    for _ in ranked.findings:
        for number, cause in enumerate(ranked.causes):
            if cause in depth and number not in depth:
                depth[number] = depth[cause] + 1
    return sorted((n for n in depth if n), key=lambda n: (depth[n], n))


def _step(part: str, finding: findings.Finding, quote: Quote) -> c.Step:
    return c.Step(
        part=part,  # type: ignore[arg-type]
        slug=finding.slug,
        text=line(finding.headline, PROSE),
        count=1,
        ranks_folded=fold_ranks(finding.ranks),
        evidence=quote(finding.evidence[:1]),
    )


def _counted(part: str, seen: findings.Seen, text: str, quote: Quote) -> c.Step:
    return c.Step(
        part=part,  # type: ignore[arg-type]
        slug=None,
        text=line(text, PROSE),
        count=seen.many,
        ranks_folded=fold_ranks(seen.ranks),
        evidence=quote((seen.first,)),
    )


def onset(told: findings.Onset | None, quote: Quote) -> c.Onset | None:
    """Return the onset; None if its time is unknown."""
    stopped = None if told is None else rfc3339(told.t)
    if told is None or stopped is None:
        return None
    hidden = None if told.noticed is None else (told.noticed - told.t) // SECOND
    cost = None
    if hidden is not None and told.world_size:
        cost = f"{hidden * told.world_size / HOUR:,.2f}"
    return c.Onset(
        stopped=stopped,
        how=line(told.how, PROSE),
        noticed=rfc3339(told.noticed),
        hidden_seconds=hidden,
        ranks=told.world_size,
        gpu_hours=cost,
        evidence=() if told.cite is None else quote((told.cite,)),
    )
