"""Parsing is a pure function of one source: bytes in, frames out, damage as notes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ncclforensics import tables
from ncclforensics.parsers import error_json, flight_recorder, log_files, ras_json
from ncclforensics.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from ncclforensics.sources import Source

READERS: Mapping[str, Callable[[Source], Frames]] = {
    "log": log_files.read,
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
    return Frames({**read.tables, "sources": _manifest(source, read)}, read.messages)


def _manifest(source: Source, read: Frames) -> pl.DataFrame:
    """Return the one row of `sources`: what the file is, and how much it gave."""
    told = read.tables["sources"].to_dicts() if "sources" in read.tables else ()
    given = ("events", "entries", "groups", "positions", "exits")
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
        "rows": sum(f.height for name, f in read.tables.items() if name in given),
        "sha256": _digest(source),
        "source": source.name,
    }
    return tables.rows("sources", [row])


def _digest(source: Source) -> str | None:
    try:
        with source.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
