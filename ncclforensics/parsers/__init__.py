"""Parsing is a pure function of one source: bytes in, frames out, damage as notes."""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import tables
from ncclforensics.notes import Note
from ncclforensics.parsers import error_json, flight_recorder, log_files, ras_json
from ncclforensics.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ncclforensics.sources import Source

READERS: Mapping[str, Callable[[Source], Frames]] = {
    "log": log_files.read,
    "flight_recorder_pickle": flight_recorder.read,
    "flight_recorder_json": flight_recorder.read,
    "error_json": error_json.read,
    "ras_json": ras_json.read,
}


# what a source gave is the rows of these frames
GIVEN = ("events", "entries", "groups", "positions", "exits")
THREADS = 2  # that hash files while these are read


def parse(source: Source) -> Frames:
    """Read one source by its kind; a kind without a parser gives its row in `sources`.

    Never raises on bytes: what is damaged becomes a row of `notes`.
    """
    reader = READERS.get(source.kind)
    read = Frames() if reader is None else reader(source)
    rows = sum(read[name].height for name in GIVEN)
    told = read["sources"].to_dicts()
    return _with_manifest(read, [source], [_row(source, rows, told, digest(source))])


def parse_all(sources: Sequence[Source]) -> Frames:
    """Read sources: what `parse` gives of each, in order. Logs are read together."""
    parts: list[Frames] = []
    for is_log, run in groupby(sources, lambda source: source.kind == "log"):
        some = list(run)
        if is_log and len(some) > 1:
            parts.append(_logs(some))
        else:
            parts += map(parse, some)
    return tables.join(parts)


def _logs(sources: Sequence[Source]) -> Frames:
    with ThreadPoolExecutor(THREADS) as pool:
        digests = pool.map(digest, sources)
        read = log_files.read_all(sources)
        told = {str(row["source"]): row for row in read["sources"].to_dicts()}
        rows: Counter[str] = Counter()
        for name in read.tables.keys() & set(GIVEN):
            counted = read[name].group_by("source").len()
            rows.update(dict(counted.iter_rows()))
        return _with_manifest(
            read,
            sources,
            [
                _row(source, rows[source.name], [told[source.name]], sha256)
                for source, sha256 in zip(sources, digests, strict=True)
            ],
        )


def _with_manifest(
    read: Frames, sources: Sequence[Source], rows: Sequence[Mapping[str, object]]
) -> Frames:
    notes = pl.concat([read["notes"], *map(_changed, sources)])
    manifest = tables.rows("sources", rows)
    return Frames({**read.tables, "notes": notes, "sources": manifest}, read.messages)


def _row(
    source: Source,
    rows: int,
    told: Sequence[Mapping[str, object]],
    sha256: str | None,
) -> dict[str, object]:
    """Return a row of `sources`: what the file is, and how much it gave."""
    return {
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
        "rows": rows,
        "sha256": sha256,
        "source": source.name,
    }


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


def digest(source: Source) -> str | None:
    """Return the SHA-256 of the file as it lies there, None where it cannot be read."""
    try:
        with source.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
