"""What rests on lines that were retold by hand is only possible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.findings import Finding
from ncclforensics.parsers.logs.second_look import RETOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ncclforensics.model.findings import Statement
    from ncclforensics.model.frames import Frames

SAID = " The text was condensed by hand, so it is only possible."


def capped(frames: Frames, said: Iterable[Statement]) -> Iterator[Statement]:
    """Yield the statements; what cites a retold line is `possible` at most."""
    lines = frames["events"].filter(pl.col("message").str.starts_with(RETOLD))
    places = {*lines.select("source", "line").iter_rows()}
    for statement in said:
        if isinstance(statement, Finding) and any(
            (cite.source, cite.line) in places for cite in statement.evidence
        ):
            yield replace(
                statement,
                confidence="possible",
                explanation=statement.explanation + SAID,
            )
        else:
            yield statement
