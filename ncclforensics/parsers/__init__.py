"""Parsing is a pure function of one source: bytes in, frames out, damage as notes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import tables
from ncclforensics.notes import Note
from ncclforensics.parsers import error_json, flight_recorder, logs, ras_json
from ncclforensics.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ncclforensics.sources import Source

READERS: Mapping[str, Callable[[Source], Frames]] = {
    "log": logs.read,
    "flight_recorder_pickle": flight_recorder.read,
    "flight_recorder_json": flight_recorder.read,
    "error_json": error_json.read,
    "ras_json": ras_json.read,
}


def parse(source: Source) -> Frames:
    """Read one source by its kind; a kind without a parser gives its row in `sources`.

    Never raises on bytes: what is damaged becomes a row of `notes`.
    """
    reader = READERS.get(source.kind)
    read = Frames() if reader is None else reader(source)
    notes = pl.concat([read["notes"], _changed(source)])
    tables_ = {**read.tables, "notes": notes, "sources": _manifest(source, read)}
    return Frames(tables_, read.messages)


def _manifest(source: Source, read: Frames) -> pl.DataFrame:
    """Return the one row of `sources`: what the file is, and how much it gave."""
    told = read["sources"].head(1).to_dicts()
    given = ("events", "collectives", "groups", "positions", "exits")
    row = {
        "kind": source.kind,
        "why": source.why,
        "rank": source.rank,
        "local_rank": source.local_rank,
        "host": source.host,
        "attempt": source.attempt,
        "stream": source.stream,
        "bytes": source.bytes,
        "lines": told[0]["lines"] if told else None,
        "cut": told[0]["cut"] if told else None,
        "rows": sum(read[name].height for name in given),
        "sha256": _digest(source),
        "source": source.name,
    }
    return tables.rows("sources", [row])


def _changed(source: Source) -> pl.DataFrame:
    """Return a note if a file is not as large any more as when it was found."""
    if source.kind not in READERS:
        return tables.empty("notes")
    try:
        size = source.path.stat().st_size
    except OSError as error:
        text = f"went away while it was read: {error.strerror}"
    else:
        if size == source.bytes:
            return tables.empty("notes")
        text = f"had {source.bytes:,} bytes when it was found and has {size:,} now"
        text = f"{text}: somebody writes to it, and what is read of it may change"
    return tables.noted([Note("parsers", text, source.name)])


def _digest(source: Source) -> str | None:
    try:
        with source.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
