"""What a diagnoser says: findings, what is ruled out, what could not be checked.

Plain records between the diagnosers, the ranking and the report. `slug` is a class of
failure_classes.md; `explains` names the classes whose findings are echoes of this one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Confidence = Literal["certain", "likely", "possible"]
Role = Literal["root", "echo", "witness"]


@dataclass(frozen=True, slots=True, order=True)
class Cite:
    """A line of the evidence: the file's name there, its 1-based line, its text."""

    source: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Collective:
    """The call that failed; `seq` counts as the evidence counts it."""

    process_group: str | None = None
    process_group_desc: str | None = None
    seq: int | None = None
    op: str | None = None
    call_site: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure class that the evidence shows, and whom it names.

    `headline` is one line that stands alone. `ranks` are global ranks; they, `hosts`
    and `devices` stay empty where the evidence names nobody. `first_seen` is UTC
    nanoseconds.
    """

    slug: str
    confidence: Confidence
    headline: str
    evidence: tuple[Cite, ...]
    explanation: str
    remedy: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    collective: Collective | None = None
    first_seen: int | None = None


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A class that was looked for with the evidence to see it, and is not there."""

    slug: str
    why: str
    evidence: tuple[Cite, ...] = ()


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A class that this evidence cannot show, and what would show it next time."""

    slug: str
    missing: str
    next_time: str


Statement = Finding | RuledOut | NotChecked


@dataclass(frozen=True, slots=True)
class Ranked:
    """The findings in order of blame, and what that makes of the whole job.

    `roles` holds one word per finding, in the same order; the first finding is the
    verdict unless `outcome` is "no-failure".
    """

    outcome: Literal["failure", "no-failure", "inconclusive"]
    verdict: Finding | None
    findings: tuple[tuple[Role, Finding], ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    job: Mapping[str, object] = field(default_factory=dict)
