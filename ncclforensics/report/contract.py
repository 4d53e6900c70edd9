"""The JSON contract, schema_version 1: the structs that a report is made of.

Field order here is key order in the JSON, and schemas/report-v1.json is generated from
here, docstrings included. Strings hold no control characters (see `sanitize`). Ranks
are global and sorted; times are RFC 3339 UTC with nanoseconds; a `source` is the name
of a file within the evidence, a `line` is 1-based.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ncclforensics.model.findings import MOST_SUSPECTS

SCHEMA_VERSION: Literal[1] = 1

Outcome = Literal["failure", "no-failure", "inconclusive"]
Family = Literal["desync", "dead-rank", "network", "platform", "launch", "runtime"]
Confidence = Literal["certain", "likely", "possible"]
Domain = Literal[
    "hardware",
    "network",
    "storage",
    "platform",
    "launch",
    "user-code",
    "scheduler",
    "unknown",
]
Role = Literal["root", "echo", "witness"]
Counts = Literal["line", "entry"]


class Tool(Struct, frozen=True, forbid_unknown_fields=True):
    """What made the report."""

    name: str
    version: str


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the evidence; `text` is cut with … where it was long.

    Where `counts` is "entry", `line` is the number of an entry of a dump, and `text`
    says what that entry tells. Without a line, `text` is about the whole file.
    """

    source: str
    line: int | None
    text: str
    counts: Counts = "line"

    @property
    def place(self) -> str:
        """`rank_3.log:9`; of an entry `nccl_trace_rank_3#9`; or only the file."""
        if self.line is None:
            return self.source
        return f"{self.source}{'#' if self.counts == 'entry' else ':'}{self.line}"


class Culprits(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom a finding names; all empty where the evidence names nobody."""

    ranks: tuple[int, ...]
    ranks_folded: str
    hosts: tuple[str, ...]
    devices: tuple[str, ...]


class Collective(Struct, frozen=True, forbid_unknown_fields=True):
    """The call that failed; `seq` counts as the evidence counts it."""

    process_group: str | None
    process_group_desc: str | None
    seq: int | None
    op: str | None
    call_site: str | None


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    """One failure class that the evidence shows, whom it names, and why we say so."""

    slug: str = field(name="class")
    family: Family
    confidence: Confidence
    headline: str
    culprits: Culprits
    collective: Collective | None
    first_seen: str | None
    evidence: tuple[Evidence, ...]
    explanation: str
    remedy: tuple[str, ...]
    references: tuple[str, ...]
    domain: Domain = "unknown"
    restart: str = "unknown"


class Suspect(Struct, frozen=True, forbid_unknown_fields=True):
    """A rank to look at first, and why. Suspected is not accused: culprits are that.

    `weight` is its share among all that may have done it, as far as the evidence says.
    """

    rank: int
    host: str | None
    weight: Annotated[float, Meta(ge=0, le=1)]
    why: str
    evidence: tuple[Evidence, ...]


class Finding(Verdict, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A verdict's shape, and its place in the whole: cause, consequence or sign.

    `explained_by` is the class of the finding that brought this one about.
    """

    role: Role
    explained_by: str | None = None


class RuledOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A class that was looked for with the evidence to see it, and is not there."""

    slug: str = field(name="class")
    why: str
    evidence: tuple[Evidence, ...]


class NotChecked(Struct, frozen=True, forbid_unknown_fields=True):
    """A class that this evidence cannot show, and what would show it next time."""

    slug: str = field(name="class")
    missing: str
    next_time: str


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """The job as far as the evidence tells; null is unknown.

    `ranks_placed` counts the ranks of which the host is known.
    """

    world_size: int | None = None
    ranks_seen: int | None = None
    ranks_placed: int | None = None
    hosts: tuple[str, ...] = ()
    nccl_version: str | None = None
    torch_version: str | None = None
    launcher: str | None = None


class SourceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the evidence: what it is and why, whose it is, what was read of it.

    `rows` counts what was recognised; `sha256` is of the bytes as they lie there. The
    path tells `rank` and `host`; the rows tell `ranks` (folded), `hosts`, `dialects`
    (whose messages they are), and the times of the `first` and the `last` of them.
    """

    source: str
    kind: str
    why: str
    rank: int | None
    local_rank: int | None
    host: str | None
    attempt: int | None
    stream: str | None
    bytes: int | None
    lines: int | None
    rows: int | None
    sha256: str | None
    ranks: str = ""
    hosts: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    first: str | None = None
    last: str | None = None


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """What a stage found damaged, skipped or assumed."""

    stage: str
    text: str
    source: str | None
    line: int | None


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """A step from the cause to what people saw: so many times, on these ranks."""

    part: Literal["cause", "spread", "seen"]
    slug: str | None = field(name="class")
    text: str
    count: int
    ranks_folded: str
    evidence: tuple[Evidence, ...]


class Onset(Struct, frozen=True, forbid_unknown_fields=True):
    """When the job really stopped, how we know, and what it cost until it was noticed.

    `hidden_seconds` lie between the two; `gpu_hours` is that times `ranks`, all of the
    job, at one GPU a rank.
    """

    stopped: str
    how: str
    noticed: str | None
    hidden_seconds: int | None
    ranks: int | None
    gpu_hours: str | None
    evidence: tuple[Evidence, ...]


class Stood(Struct, frozen=True, forbid_unknown_fields=True):
    """The call in which some ranks stopped; null where the evidence does not tell."""

    ranks_folded: str
    op: str | None
    seq: int | None
    process_group: str | None


class Clue(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known where nobody is accused, and which files would settle it.

    `text` may be "". Of `ranks` in all, there is a line or a dump of those in `heard`
    and nothing of the `silent` ones. `reporters` are the hosts whose lines report a
    failure first; they may be its victims. `stood` has the calls of most ranks first.
    """

    text: str
    ranks: int | None
    heard: str
    silent: str
    reporters: tuple[str, ...]
    timed_out: str
    stood: tuple[Stood, ...]
    needed: tuple[str, ...]


class Gain(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom a job that runs well waits for most, and what share of its time that is."""

    ranks: tuple[int, ...]
    ranks_folded: str
    hosts: tuple[str, ...]
    share: Annotated[float, Meta(ge=0, le=1)]
    text: str


class Other(Struct, frozen=True, forbid_unknown_fields=True):
    """Another job or attempt in the same evidence, explained by itself, in short."""

    job: str | None
    attempt: int | None
    outcome: Outcome
    slug: str | None = field(name="class")
    headline: str
    culprits: Culprits
    evidence: tuple[Evidence, ...]


Suspects = Annotated[tuple[Suspect, ...], Meta(max_length=MOST_SUSPECTS)]


class Report(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole answer; `findings` come in order of blame, the verdict's first.

    `suspects` have the heaviest first. They may hold culprits as well, and are told
    above all where nobody is accused.
    `chain` leads from the verdict's cause over how it spread to what people saw.
    `others` are jobs and attempts that lie beside the one that is explained.
    `clue` leads where the outcome is inconclusive and no class explains it.
    `last_line` is the last line of the culprits' own log before anybody noticed.
    `earlier` is what a store of incidents knows of this failure, if one was asked.
    `fastest_gain` is there where nothing is known to have failed, and a rank is slow.
    """

    schema_version: Literal[1]
    tool: Tool
    outcome: Outcome
    verdict: Verdict | None
    suspects: Suspects = ()
    findings: tuple[Finding, ...]
    ruled_out: tuple[RuledOut, ...]
    not_checked: tuple[NotChecked, ...]
    job: Job
    sources: tuple[SourceFile, ...]
    notes: tuple[Note, ...]
    chain: tuple[Step, ...] = ()
    onset: Onset | None = None
    others: tuple[Other, ...] = ()
    clue: Clue | None = None
    last_line: Evidence | None = None
    earlier: tuple[str, ...] = ()
    fastest_gain: Gain | None = None


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of the jsonl format: a finding, or null where there is none.

    The first line has the suspects of the whole report, if there are any.
    """

    schema_version: Literal[1]
    tool: Tool
    outcome: Outcome
    finding: Finding | None
    suspects: Suspects = ()
