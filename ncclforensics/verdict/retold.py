"""What rests on lines that were retold by hand is less sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.findings import Finding
from ncclforensics.model.tables import CITE
from ncclforensics.parsers.logs.second_look import RETOLD
from ncclforensics.parsers.logs.sentences import QUOTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

    Place = tuple[str, int]

SAID = "The text was condensed by hand, so it is only possible. "
SAID_IN_SENTENCE = "It is quoted inside a sentence, so it is only possible. "
# a library's own sentence, of which a person kept the beginning
BEGUN = ".retold"
SAID_OF_BEGUN = "Only the beginning of the line is the library's; the rest was retold. "
ENDED_WELL = "condensed.ended_well"
OF_ANOTHER = "{slug} is mentioned, and a run is said to have ended well"
SAID_ENDED_WELL = (
    "Somebody says that a run ended well ({source}:{line}). The failure that is "
    "mentioned may be of another run."
)


def capped(frames: Frames, said: Iterable[Statement]) -> Iterator[Statement]:
    """Yield the statements; what cites a retold line is `possible` at most.

    `likely`, if the beginning of the line is as the library prints it. What a sentence
    quotes accuses only whom it names itself, and nobody where somebody says, there or
    below, that a run ended well.
    """
    message = pl.col("message")
    begun = _places(frames, message.str.ends_with(BEGUN))
    retold = _places(frames, message.str.starts_with(RETOLD) & (message != ENDED_WELL))
    quoted = _places(frames, message == QUOTED)
    well = dict(sorted(_places(frames, message == ENDED_WELL)))
    for statement in said:
        if not isinstance(statement, Finding):
            yield statement
            continue
        cited = {(c.source, c.line) for c in statement.evidence if c.line is not None}
        over = sorted((s, well[s]) for s, n in cited if s in well and n <= well[s])
        if over:
            yield _of_another(statement, *over[0])
        elif cited & quoted:
            words = _words(frames, cited & quoted)
            yield _of_hand(_named(statement, words), "possible", SAID_IN_SENTENCE)
        elif cited & retold:
            yield _of_hand(statement, "possible", SAID)
        elif cited & begun:
            own = statement.confidence
            most: Confidence = "likely" if own == "certain" else own
            yield _of_hand(statement, most, SAID_OF_BEGUN)
        else:
            yield statement


def _places(frames: Frames, which: pl.Expr) -> set[Place]:
    lines = frames["events"].filter(which)
    return {*zip(lines["source"], lines["line"], strict=True)}


def _words(frames: Frames, places: set[Place]) -> str:
    """Return what is written in some lines."""
    asked = pl.DataFrame(sorted(places), CITE, orient="row")
    lines = frames["events"].join(asked, on=[*CITE], how="semi")
    return " ".join(
        lines.select(pl.concat_str("prefix", "text", ignore_nulls=True)).to_series()
    )


def _named(finding: Finding, words: str) -> Finding:
    """Return a finding with those of its culprits that `words` name."""
    numbers = {int(n) for n in re.findall(r"[0-9]{1,6}", words)}
    return replace(
        finding,
        ranks=tuple(rank for rank in finding.ranks if rank in numbers),
        hosts=tuple(host for host in finding.hosts if host in words),
        devices=tuple(name for name in finding.devices if name in words),
    )


def _of_another(finding: Finding, source: str, line: int) -> Finding:
    """Return a finding that need not be of this run, so it accuses nobody."""
    return replace(
        finding,
        confidence="possible",
        headline=OF_ANOTHER.format(slug=finding.slug),
        explanation=SAID_ENDED_WELL.format(source=source, line=line),
        ranks=(),
        hosts=(),
        devices=(),
        remedy=(),
    )


def _of_hand(finding: Finding, confidence: Confidence, why: str) -> Finding:
    return replace(
        finding, confidence=confidence, explanation=why + finding.explanation
    )
