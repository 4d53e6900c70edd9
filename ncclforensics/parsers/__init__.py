"""Parsing is a pure function of one source: bytes in, frames out, damage as notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, PartialRead, join
from ncclforensics.model.notes import Note
from ncclforensics.parsers import (
    collected_json,
    environment,
    error_json,
    fleet_json,
    kubernetes,
    layout_json,
    limits,
    pyspy_json,
    ras_json,
    slurm_json,
)
from ncclforensics.parsers.flight_recorder import dump_reader
from ncclforensics.parsers.logs import log_reader, log_shape
from ncclforensics.sources import compression

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from ncclforensics.sources import Source

Reader = Callable[[Sequence["Source"]], Frames]


def _each(read: Callable[[Source], Frames]) -> Reader:
    return lambda sources: join(map(read, sources))


READERS: Mapping[str, Reader] = {
    "log": log_reader.read_all,
    "flight_recorder_pickle": dump_reader.read_all,
    "flight_recorder_json": dump_reader.read_all,
    "error_json": error_json.read_all,
    "ras_json": _each(ras_json.read),
    "pyspy_json": _each(pyspy_json.read),
    "slurm_json": _each(slurm_json.read),
    "fleet_json": _each(fleet_json.read),
    "layout_json": _each(layout_json.read),
    "kubernetes": _each(kubernetes.read),
    "collected_json": _each(collected_json.read),
    "environment": _each(environment.read),
}


# a source's `rows` count is the number of its rows in these frames
GIVEN = ("events", "groups", "positions", "exits")
THREADS = 2  # for hashing files while they are parsed


def parse(source: Source) -> Frames:
    """Parse one source according to its kind: see `parse_all`."""
    return parse_all([source])


def parse_all(sources: Sequence[Source]) -> Frames:
    """Parse sources by kind; each gets a row in `sources`, even without a parser.

    Never raises on content: damage becomes a row of `notes`. Some sources are parsed
    together, but the result for one does not depend on the others. On an interrupt,
    raises PartialRead with the frames of the sources parsed so far, or re-raises
    KeyboardInterrupt if there are none.
    """
    parts: list[Frames] = []
    done = 0
    for reader, run in groupby(sources, lambda source: READERS.get(source.kind)):
        some = list(run)
        try:
            parts.append(_read(reader, some))
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, PartialRead):
                parts.append(interrupt.frames)
                done += interrupt.done
            if not done:
                raise
            raise PartialRead(join(parts), done) from interrupt
        done += len(some)
    return join(parts)


def _read(reader: Reader | None, sources: Sequence[Source]) -> Frames:
    with ExitStack() as stack:
        futures: dict[str, Future[str | None]] = {}
        # Parsing logs leaves cores idle, except in a pool worker (one polars thread).
        if reader is log_reader.read_all and pl.thread_pool_size() > 1:
            threads = ThreadPoolExecutor(THREADS)
            stack.callback(threads.shutdown, cancel_futures=True)
            later = [source for source in sources if not log_shape.hashes(source)]
            futures = {s.name: threads.submit(digest, s) for s in later}
        try:
            read = Frames() if reader is None else reader(sources)
        except PartialRead as partly:
            kept = _with_manifest(partly.frames, sources[: partly.done], futures)
            raise PartialRead(kept, partly.done) from partly
        return _with_manifest(read, sources, futures)


def _with_manifest(
    read: Frames,
    sources: Sequence[Source],
    futures: Mapping[str, Future[str | None]],
) -> Frames:
    """Add a row of `sources` for each source, and a note if its size changed.

    `futures` holds, by source name, hashes computed in parallel with parsing.
    """
    told = {row["source"]: row for row in read["sources"].to_dicts()}
    counted: Counter[str] = Counter()
    for name in read.tables.keys() & set(GIVEN):
        given = read[name].group_by("source").len()
        counted.update(dict(given.iter_rows()))
    rows = []
    for source in sources:
        own = told.get(source.name, {})
        sha256 = own.get("sha256")
        if sha256 is None:
            beside = futures.get(source.name)
            sha256 = beside.result() if beside else digest(source)
        rows.append(_row(source, counted[source.name], own, sha256))
    changed = [note for note in map(_changed, sources) if note]
    notes = pl.concat([read["notes"], tables.noted(changed)])
    manifest = tables.rows("sources", rows)
    return Frames({**read.tables, "notes": notes, "sources": manifest}, read.messages)


def _row(
    source: Source, counted: int, told: Mapping[str, Any], sha256: str | None
) -> dict[str, object]:
    """Return a row of `sources`: what the file is and how many rows it yielded.

    The reader's own row count in `told` takes precedence over `counted`.
    """
    rows = told.get("rows")
    modified = source.modified or 0
    return {
        "kind": source.kind,
        "why": source.why,
        "rank": source.rank,
        "local_rank": source.local_rank,
        "host": source.host,
        "attempt": source.attempt,
        "stream": source.stream,
        "bytes": source.bytes,
        "lines": told.get("lines"),
        "cut": told.get("cut"),
        "rows": counted if rows is None else rows,
        "sha256": sha256,
        "modified": modified if 0 < modified < limits.MAX_TIME else None,
        "source": source.name,
    }


def _changed(source: Source) -> Note | None:
    """Return a note if the file's size changed since discovery or it disappeared."""
    if source.kind not in READERS:
        return None
    try:
        size = source.path.stat().st_size
    except OSError as error:
        text = f"disappeared while it was read: {error.strerror}"
    else:
        if size == source.bytes:
            return None
        text = f"had {source.bytes:,} bytes when it was found and has {size:,} now"
        text = f"{text}: it is still being written, and the next run may read more"
    return Note("parsers", text, source.name)


def digest(source: Source) -> str | None:
    """Return the SHA-256 of the file as stored on disk, None if it is unreadable."""
    try:
        return compression.digest(source.path)
    except OSError:
        return None
