"""The types of a message's captures, freshly parsed or read from a file.

A grammar names the types of its own captures. A column of an inner structure has the
type that frames give to its name, or the one that the structure's `KINDS` says, or is
text.
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

    from ncclforensics.parsers.logs.grammar import Message

TYPES = {c: kind for frame in tables.SCHEMAS.values() for c, kind in frame.items()}
# what a structure's `KINDS` call the types of its own columns
KINDS: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "ints": pl.List(pl.Int64()),
    "strings": pl.List(pl.String()),
    "bool": pl.Boolean(),
}
# what a grammar calls the types of its captures
CAPTURED: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "hex": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "str": pl.String(),
}


# captures that would be taken for what a line says of itself are NAME_text
OWN_COLUMNS = ("message", "role", "level", "text")


@cache
def columns(structure: str) -> tuple[str, ...]:
    """Return the columns that every row of an inner structure has, if it has any."""
    module = import_module(f"ncclforensics.parsers.logs.structures.{structure}")
    return tuple(f"{c}_text" if c in OWN_COLUMNS else c for c in module.COLUMNS)


@cache
def inner(structure: str) -> Mapping[str, pl.DataType]:
    """Return the types of an inner structure's columns; what is not there is text."""
    module = import_module(f"ncclforensics.parsers.logs.structures.{structure}")
    own = getattr(module, "KINDS", {})
    return TYPES | {column: KINDS[kind] for column, kind in own.items()}


def schema(message: Message, columns: list[str]) -> dict[str, pl.DataType]:
    """Return the types of a message's `columns`, as far as they are its own."""
    told = {c: CAPTURED[kind] for c, kind in message.columns.items()}
    told |= tables.SCHEMAS["events"]
    if message.inner:
        types = inner(message.inner)
        others = (c for c in columns if c not in told)
        told |= {c: types.get(c, pl.String()) for c in others}
    return told


def conform(message_id: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a message's frame out of a file; captures that it lacks are null.

    Raises ValueError where a column of `events` is not there, and where one has another
    type. A message that no grammar knows has the columns of `events`.
    """
    known = {message.id: message for message in grammar.load()}
    message = known.get(message_id)
    types: dict[str, pl.DataType] = dict(tables.SCHEMAS["events"])
    if message is not None:
        whole = list(frame.columns)
        if message.inner:
            alone = set(columns(message.inner)) - types.keys() - message.columns.keys()
            # what was torn before its structure has none of them
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
        raise ValueError(f"message {message_id}: not as it should be: {wrong[0]}")
    return frame.with_columns(
        *(pl.lit(None, types[c]).alias(c) for c in missing),
        *(pl.col(c).cast(t) for c, t in types.items() if c in frame.columns),
    )
