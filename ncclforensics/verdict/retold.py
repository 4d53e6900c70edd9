"""What rests on lines that were retold by hand is less sure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.findings import Finding
from ncclforensics.parsers.logs.second_look import RETOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.model.findings import Confidence, Statement
    from ncclforensics.model.frames import Frames

SAID = " The text was condensed by hand, so it is only possible."
# a library's own sentence, of which a person kept the beginning
BEGUN = ".retold"
SAID_OF_BEGUN = " Only the beginning of the line is the library's; the rest was retold."


def capped(frames: Frames, said: Iterable[Statement]) -> Iterator[Statement]:
    """Yield the statements; what cites a retold line is `possible` at most.

    `likely`, if the beginning of the line is as the library prints it.
    """
    message = pl.col("message")
    begun = _places(frames, message.str.ends_with(BEGUN))
    places = _places(frames, message.str.starts_with(RETOLD))
    for statement in said:
        cited = (
            {(cite.source, cite.line) for cite in statement.evidence}
            if isinstance(statement, Finding)
            else set()
        )
        if isinstance(statement, Finding) and cited & places:
            yield _of_hand(statement, "possible", SAID)
        elif isinstance(statement, Finding) and cited & begun:
            own = statement.confidence
            most: Confidence = "likely" if own == "certain" else own
            yield _of_hand(statement, most, SAID_OF_BEGUN)
        else:
            yield statement


def _places(frames: Frames, which: pl.Expr) -> set[tuple[str | None, int | None]]:
    lines = frames["events"].filter(which)
    return {*lines.select("source", "line").iter_rows()}


def _of_hand(finding: Finding, confidence: Confidence, why: str) -> Finding:
    return replace(
        finding, confidence=confidence, explanation=finding.explanation + why
    )
