"""The output of diagnosers: findings, what is ruled out, what could not be checked.

Plain records passed between the diagnosers, the ranking and the report. `slug` names a
failure class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.model.actions import Action

Confidence = Literal["certain", "likely", "possible"]
Role = Literal["root", "echo", "witness"]
Counts = Literal["line", "entry"]


@dataclass(frozen=True, slots=True, order=True)
class Cite:
    """A line of the evidence: file name as in `sources`, 1-based line, text.

    `counts` is "entry" where `line` is the number of an entry of a dump.
    """

    source: str
    line: int | None
    text: str
    counts: Counts = "line"


@dataclass(frozen=True, slots=True)
class Collective:
    """The call that failed; `seq` is the sequence number as the evidence counts it."""

    process_group: str | None = None
    process_group_desc: str | None = None
    seq: int | None = None
    op: str | None = None
    call_site: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure class shown by the evidence, and the ranks and hosts it names.

    `headline` is one self-contained line. `ranks` are global ranks; `ranks`, `hosts`
    and `devices` are empty if the evidence names none. `first_seen` is UTC nanoseconds.
    `own`: the evidence itself says that no other rank caused this. `reports`: `hosts`
    only report it: their ranks are not to blame, and draining them may not help.
    `drain`: the machines, where `hosts` are pods on them.
    `calls` are the numbers of the calls through which others wait for the ranks, if
    that shows them. `variant` is what the evidence shows of where the failure lies,
    beyond its class: see `diagnosers.domains`. `remedy` is what to do, the best first;
    only a ranked finding has it in words. `suspects` are the ranks that it leaves to
    look at, where it names none.
    """

    slug: str
    confidence: Confidence
    headline: str
    evidence: tuple[Cite, ...]
    explanation: str
    remedy: tuple[str | Action, ...]
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    collective: Collective | None = None
    first_seen: int | None = None
    own: bool = False
    reports: bool = False
    calls: frozenset[int] = frozenset()
    variant: str = ""
    suspects: tuple[Suspect, ...] = ()


HOST = "HOST"  # in a class's `restart`, for the hosts of a finding
MOST_SUSPECTS = 8  # that are told


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank to look at first; a suspicion, not a verdict.

    `weight` is its share of the suspicion, from 0 to 1.
    """

    rank: int
    host: str | None
    weight: float
    why: str
    evidence: tuple[Cite, ...] = ()


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A class that the evidence would show, and that was checked and not found."""

    slug: str
    why: str
    evidence: tuple[Cite, ...] = ()


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A class that this evidence cannot show, and what to collect next time.

    `is_fault`: the check itself failed.
    """

    slug: str
    missing: str
    next_time: str
    is_fault: bool = False


Statement = Finding | RuledOut | NotChecked


@dataclass(frozen=True, slots=True)
class Ranked:
    """The findings in order of blame, and the outcome for the job.

    The first finding is the verdict, unless two explanations fit equally well. `causes`
    has, for each finding, the index of the finding that caused it, or None. `suspects`
    are ordered by weight, highest first, at most eight.
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
    """A message that many ranks printed because of the failure, with its count."""

    message: str
    meaning: str
    many: int
    ranks: tuple[int, ...]
    first: Cite


@dataclass(frozen=True, slots=True)
class Onset:
    """When the job really stopped (`t`), and when that was `noticed`; UTC nanoseconds.

    `how` says what the time is derived from.
    """

    t: int
    how: str
    cite: Cite | None
    noticed: int | None = None
    world_size: int | None = None


@dataclass(frozen=True, slots=True)
class Stood:
    """The call in which some ranks stopped; None where the evidence does not tell."""

    ranks: tuple[int, ...]
    op: str | None
    seq: int | None
    process_group: str | None


@dataclass(frozen=True, slots=True)
class Clue:
    """What is known where nobody is accused.

    `text` is one sentence, "" if nothing points anywhere. Of `ranks` in all, there is a
    line or a dump of those in `heard` and nothing of the `silent` ones. `reporters` are
    the hosts whose lines report a failure first, which may be its victims. `needed` are
    the files that would settle it.
    """

    text: str
    ranks: int | None
    heard: tuple[int, ...]
    silent: tuple[int, ...]
    reporters: tuple[str, ...]
    timed_out: tuple[int, ...]
    stood: tuple[Stood, ...]
    needed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gain:
    """What makes a job that runs faster at once: whom it waits for, and how much.

    `share` is that of all time which the job would gain.
    """

    text: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a failure, in addition to its findings.

    `held` are the ranks that wait for the culprits, according to dumps. `clue` is there
    if nobody is accused. `last_line` is the last line that the culprits printed before
    anybody noticed. `gain` is there if nothing failed and some rank is slow.
    """

    onset: Onset | None = None
    seen: tuple[Seen, ...] = ()
    held: Seen | None = None
    clue: Clue | None = None
    last_line: Cite | None = None
    gain: Gain | None = None
