"""The answers of `history`: the structs that `-f json` prints, described in docs.

Times are RFC 3339, UTC. A field that is not known is null.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from ncclforensics.report.contract import Tool  # noqa: TC001 - msgspec reads it

By = Literal["host", "gpu", "class", "user", "image", "failure"]
Measure = Literal["node hours", "hosts of the jobs", "jobs"]
BY: tuple[By, ...] = ("host", "gpu", "class", "user", "image", "failure")


class Seen(Struct, frozen=True):
    """One incident. `failure` is its fingerprint; `advice` is what the report said.

    `restarted` says what was kept next of the same job: when, and whether on the host
    that is asked about.
    """

    t: str | None
    outcome: str
    slug: str | None = field(name="class")
    headline: str
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    ranks: str
    job: str | None
    user: str | None
    image: str | None
    failure: str
    call_site: str | None
    gpu_hours: float | None
    ticket: str | None
    path: str | None
    advice: str | None = None
    restarted: str | None = None


class Standing(Struct, frozen=True):
    """How surprising a count is, if nobody in the table differs (see `exact`).

    `tail` is the chance of that many `events` or more where `expected` are expected,
    `corrected` the same for one of all that are compared.
    """

    expected: float
    tail: float
    corrected: float
    stands_out: bool


class Count(Struct, frozen=True):
    """A row of a table: `incidents` name it, of the `classes`; `events` are tested.

    `hours` are node hours, of a GPU GPU hours, and the rate is events per 1,000 hours.
    """

    name: str
    incidents: int
    events: int
    first: str | None
    last: str | None
    classes: dict[str, int]
    headline: str | None
    hours: float | None = None
    per_1000_hours: float | None = None
    standing: Standing | None = None


class Counts(Struct, frozen=True):
    """`history --by`: who stands out first, then by number.

    Of `names` in all, `rows` has the first. `measure` is what the counts are held
    against, null where nothing is tested. `compared` is how many are compared, also
    those without an incident.
    """

    tool: Tool
    by: By
    since: str | None
    until: str | None
    incidents: int
    events: int
    names: int
    compared: int
    measure: Measure | None
    rows: tuple[Count, ...]


class Listing(Struct, frozen=True):
    """`history`: the newest incidents, of `incidents` in all in `analyses`."""

    tool: Tool
    since: str | None
    until: str | None
    analyses: int
    incidents: int
    shown: tuple[Seen, ...]


class Node(Struct, frozen=True):
    """`history --node`: all incidents that name a host, the newest first."""

    tool: Tool
    host: str
    since: str | None
    until: str | None
    count: Count | None
    compared: int
    measure: Measure | None
    shown: tuple[Seen, ...]
