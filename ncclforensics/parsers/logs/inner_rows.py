"""Parses what stands inside a message: a table, a traceback, a report of many lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model.plans import collected
from ncclforensics.model.tables import SCHEMAS
from ncclforensics.parsers import limits
from ncclforensics.parsers.logs import captures
from ncclforensics.parsers.logs.lines_below import under
from ncclforensics.parsers.logs.message_parsers.limits import is_capped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.parsers.logs import framing
    from ncclforensics.parsers.logs.grammar import Message

FOUND = "_found"  # whether a row of a message came out of its inner structure


@dataclass(slots=True)
class Room:
    """The remaining budget for the inner structures of one log.

    `rows` limits the rows that they yield, `characters` what pyparsing reads; the
    structures that do not use pyparsing are fast.
    """

    rows: int = field(default_factory=lambda: limits.MAX_STRUCTURE_ROWS)
    characters: int = field(default_factory=lambda: limits.MAX_PARSED_CHARACTERS)


def structured(
    frame: pl.DataFrame, message: Message, lines: framing.Lines, room: Room
) -> tuple[pl.DataFrame, bool]:
    """Parse the inner structure of each message: one row per row of the structure.

    A message without such rows keeps its one row, with FOUND false. Also returns
    whether a limit was exceeded: `room`, MAX_STRUCTURES messages, the lines of one
    message, or the characters of its text.
    """
    structure = captures.module(str(message.inner))
    starts = frame.head(limits.MAX_STRUCTURES)
    texts = starts["text"].to_list()
    places = [[line] for line in starts["line"]]
    untimed = starts["t"].is_null().to_list()
    timed = [[False]] * starts.height
    if message.block > 1:
        said = (
            under(starts, lines, message.block)
            .group_by("line", "part", maintain_order=True)
            .agg(pl.col("text").str.join("\n"), "under", "timed")
        )
        below = starts.select("line", "part").join(
            said, on=["line", "part"], how="left", maintain_order="left"
        )
        texts = [
            f"{text}\n{rest}" if rest else text
            for text, rest in zip(texts, below["text"], strict=True)
        ]
        under_ = below.select(pl.concat_list("line", pl.col("under").fill_null([])))
        places = under_.to_series().to_list()
        timed = [[False, *(some or ())] for some in below["timed"].to_list()]
    parsed: list[dict[str, object]] = []
    longest = getattr(structure, "LONGEST", limits.MAX_STRUCTURE_CHARACTERS)
    is_cut = frame.height > starts.height
    is_cut = is_cut or any(is_capped(text, longest) for text in texts)
    refuses = getattr(structure, "refuses", None)
    is_slow = hasattr(structure, "pp")
    for number, text in enumerate(texts):
        if room.rows <= 0 or (is_slow and room.characters <= 0):
            is_cut = True
            break
        rows = structure.parse(text)
        is_cut = is_cut or len(rows) > room.rows
        is_cut = is_cut or (refuses is not None and refuses(text))
        # a structure that reaches the last line of its block may continue below it
        is_cut = is_cut or any(row.get("span") == message.block for row in rows)
        if captures.GOES_ON in structure.COLUMNS and rows and untimed[number]:
            rows[0][captures.GOES_ON] = any(timed[number][_span(rows[0]) :])
        rows = [_placed(row, text, places[number]) for row in rows]
        parsed += ({"_start": number, **row} for row in rows[: room.rows])
        room.rows -= max(len(rows), 1)
        room.characters -= min(len(text), longest) * is_slow
    if not parsed:
        return frame.with_columns(pl.lit(False).alias(FOUND)), is_cut
    inner = pl.DataFrame(parsed, infer_schema_length=None, strict=False)
    inner = inner.rename(
        {c: f"{c}_text" for c in inner.columns if c in captures.OWN_COLUMNS}
    )
    # columns that are null in all rows still need their type
    types = captures.inner(str(message.inner))
    inner = inner.with_columns(
        *(
            pl.col(c).cast(types.get(c, pl.String()))
            for c, kind in inner.schema.items()
            if kind == pl.Null
        ),
        pl.lit(True).alias(FOUND),
    )
    clashes = [c for c in inner.columns if c in starts.columns]
    whole = (
        starts.lazy()
        .with_columns(pl.int_range(pl.len()).alias("_start"))
        .join(
            inner.lazy(),
            on="_start",
            how="left",
            suffix="_inner",
            maintain_order="left",
        )
        .with_columns(
            pl.col(FOUND).fill_null(False),
            *(
                pl.coalesce(_like(f"{c}_inner", c, inner), _like(c, c, inner)).alias(c)
                for c in clashes
            ),
        )
        .drop("_start", *(f"{c}_inner" for c in clashes))
    )
    return collected(whole), is_cut


def _span(row: dict[str, object]) -> int:
    """Return how many lines a row of an inner structure takes."""
    return int(str(row.get("span") or 1))


def _placed(
    row: dict[str, object], text: str, places: Sequence[int]
) -> dict[str, object]:
    """Replace `said_at` of a row by the line of the file, and what that says.

    Lines that hold a prefix alone are not in the text; `span` counts them.
    """
    said = text.splitlines()
    is_known = len(said) == len(places)
    if "span" in row and is_known:
        last = min(_span(row), len(places)) - 1
        row = row | {"span": places[last] - places[0] + 1}
    if captures.SAID_AT not in row:
        return row
    at = row.pop(captures.SAID_AT)
    told: tuple[int | None, str | None] = (None, None)
    if isinstance(at, int) and is_known:
        told = places[at], said[at].strip()
    return row | dict(zip(captures.SAID, told, strict=True))


def _like(column: str, name: str, inner: pl.DataFrame) -> pl.Expr:
    """Cast a column to the type of `name` in `events`, or else in `inner`."""
    dtype = SCHEMAS["events"].get(name, inner.schema[name])
    return pl.col(column).cast(dtype, strict=False)
