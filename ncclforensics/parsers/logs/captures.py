"""The types of a message's captures, freshly parsed or read from a file.

A grammar declares the types of its own captures. A column of an inner structure has the
type declared in the structure's `KINDS`, else the type of that name in the schemas of
the frames, else String.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.parsers.logs import grammar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from ncclforensics.parsers.logs.grammar import Message

TYPES = {c: kind for frame in tables.SCHEMAS.values() for c, kind in frame.items()}
# type names in the `KINDS` of structures
KINDS: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "ints": pl.List(pl.Int64()),
    "strings": pl.List(pl.String()),
    "bool": pl.Boolean(),
}
# type names in grammars
CAPTURED: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "rank": pl.Int64(),
    "hex": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "str": pl.String(),
}


# A structure says at which line of its text a row stands. The row then gets that line
# of the file, and what it says.
SAID_AT, SAID = "said_at", ("said_line", "said")
# whether a record with a time of its own follows, below what has none
GOES_ON = "goes_on"
NUMBERS = ("line", SAID[0])  # columns with numbers of lines

# captures whose names clash with these columns of `events` are renamed to NAME_text
OWN_COLUMNS = ("message", "role", "level", "text")


def module(structure: str) -> ModuleType:
    """Return the module that parses an inner structure."""
    return import_module(f"ncclforensics.parsers.logs.message_parsers.{structure}")


@cache
def columns(structure: str) -> tuple[str, ...]:
    """Return the columns that every row of an inner structure has."""
    whole = module(structure).COLUMNS
    told = [f"{c}_text" if c in OWN_COLUMNS else c for c in whole]
    placed = SAID if SAID_AT in told else ()
    return (*(c for c in told if c != SAID_AT), *placed)


@cache
def inner(structure: str) -> Mapping[str, pl.DataType]:
    """Return the column types of an inner structure; columns not listed are String."""
    own = getattr(module(structure), "KINDS", {})
    told = {column: KINDS[kind] for column, kind in own.items()}
    return TYPES | {SAID[0]: pl.Int64()} | told


def schema(message: Message, columns: list[str]) -> dict[str, pl.DataType]:
    """Return the types of a message's captures and of `events`.

    For a message with an inner structure, `columns` beyond those are typed as well.
    """
    told = {c: CAPTURED[kind] for c, kind in message.columns.items()}
    told |= tables.SCHEMAS["events"]
    if message.inner:
        types = inner(message.inner)
        others = (c for c in columns if c not in told)
        told |= {c: types.get(c, pl.String()) for c in others}
    return told


def conform(message_id: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Conform a message's frame that was read from a file; missing captures are null.

    Raises ValueError if a column of `events` is missing or a column has another type.
    A message in no grammar needs only the columns of `events`.
    """
    known = {message.id: message for message in grammar.load()}
    message = known.get(message_id)
    types: dict[str, pl.DataType] = dict(tables.SCHEMAS["events"])
    if message is not None:
        whole = list(frame.columns)
        if message.inner:
            alone = set(columns(message.inner)) - types.keys() - message.columns.keys()
            # a message truncated before its structure has none of these columns
            whole += columns(message.inner) if alone & set(whole) else ()
        types = schema(message, whole)
    wrong = [
        column
        for column, dtype in types.items()
        if column in frame.columns
        and frame.schema[column] not in (dtype, pl.Null, pl.List(pl.Null))
    ]
    missing = [c for c in types if c not in frame.columns]
    wrong += [c for c in missing if c in tables.SCHEMAS["events"]]
    if wrong:
        raise ValueError(f"message {message_id}: malformed: {wrong[0]}")
    return frame.with_columns(
        *(pl.lit(None, types[c]).alias(c) for c in missing),
        *(pl.col(c).cast(t) for c, t in types.items() if c in frame.columns),
    )
