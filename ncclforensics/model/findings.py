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
    nanoseconds. `own`: the evidence itself says that no other rank brought it about.
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
    own: bool = False


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank to look at first; suspected is not accused.

    `weight` is its share, from 0 to 1.
    """

    rank: int
    host: str | None
    weight: float
    why: str
    evidence: tuple[Cite, ...] = ()


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

    The first finding is the verdict, unless two stories fit equally. `causes` has for
    each finding the number of the one that brought it about. `suspects` come with the
    heaviest first, at most eight.
    """

    outcome: Literal["failure", "no-failure", "inconclusive"]
    verdict: Finding | None
    findings: tuple[tuple[Role, Finding], ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    job: Mapping[str, object] = field(default_factory=dict)
    causes: tuple[int | None, ...] = ()
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What many printed because of the failure: one kind of message, counted."""

    message: str
    meaning: str
    many: int
    ranks: tuple[int, ...]
    first: Cite


@dataclass(frozen=True, slots=True)
class Onset:
    """When the job really stopped, and when anybody could know; UTC nanoseconds.

    `how` says by what the time is known. `last_line` is the last one that the culprits
    printed before.
    """

    t: int
    how: str
    cite: Cite | None
    noticed: int | None = None
    last_line: Cite | None = None
    world_size: int | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a failure beside its findings.

    `held` are those who wait for the culprits, as dumps show it.
    """

    onset: Onset | None = None
    seen: tuple[Seen, ...] = ()
    held: Seen | None = None
