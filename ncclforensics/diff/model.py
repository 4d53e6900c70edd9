"""The result of a comparison: the structs that `diff -f json` prints.

`a` and `b` are the two sides in the order given. A null says that the side tells
nothing of it, although it tells of other things of the same topic; topics of which a
side tells nothing at all are in `untold`, and are not compared.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ncclforensics.report.contract import Evidence, Outcome, Tool, Verdict  # noqa: TC001

Topic = Literal[
    "job",
    "hosts",
    "versions",
    "environment",
    "network",
    "groups",
    "calls",
    "progress",
    "exits",
    "lines",
]


Mark = Literal["a", "b"]


class Told(Struct, frozen=True):
    """What one side tells of a fact, and the first line that tells it."""

    text: str
    evidence: Evidence | None = None


class Difference(Struct, frozen=True):
    """A fact that is another on each side; null where a side does not tell it."""

    topic: Topic
    name: str
    a: Told | None
    b: Told | None


class Answer(Struct, frozen=True):
    """A side by name, and its answer: the two opening lines and the verdict."""

    name: str
    outcome: Outcome
    opening: tuple[str, str]
    verdict: Verdict | None


class Untold(Struct, frozen=True):
    """A topic that is not compared, because these sides tell nothing of it."""

    topic: Topic
    sides: tuple[Mark, ...]


class Same(Struct, frozen=True):
    """How many facts of a topic are equal on both sides."""

    topic: Topic
    facts: int


class Comparison(Struct, frozen=True):
    """Two sides, what differs, what is equal, and what could not be compared."""

    tool: Tool
    a: Answer
    b: Answer
    differences: tuple[Difference, ...]
    same: tuple[Same, ...]
    untold: tuple[Untold, ...]
