"""Reads a Flight Recorder dump, pickle or JSON, of torch 2.2 and later.

The schema's version says little that the keys do not say better: torch 2.2 writes a
bare list of entries, 2.3 (schema 1.4) counts everything in `seq_id`, 2.4 (2.1) brings
group names, 2.5 (2.4) `pg_status`. The file knows neither rank nor world: the rank is
that of its name. Whatever is damaged becomes null and a note.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics import tables
from ncclforensics.notes import Note
from ncclforensics.parsers import fr_json, unpickler
from ncclforensics.parsers.fr_collectives import (
    Calls,
    calls,
    entries,
    template_base,
    templates,
)
from ncclforensics.parsers.fr_fields import Columns, columns, pluck
from ncclforensics.parsers.fr_groups import group_rows, groups, position_rows
from ncclforensics.parsers.fr_memory import uncollected
from ncclforensics.parsers.fr_opcodes import IrregularError
from ncclforensics.parsers.fr_stacks import stacks
from ncclforensics.parsers.limits import MAX_BYTES, MAX_ENTRIES, MAX_GROUPS
from ncclforensics.tables import Frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.parsers.fr_recovery import Loaded
    from ncclforensics.parsers.fr_repeats import Shortened
    from ncclforensics.sources.model import Source

NEWEST = (2, 10)
# smaller pickles are unpickled as fast as they are shortened
FEWEST_BYTES = 1 << 16
STACK_TYPES = (list, tuple, type(None))
PLACES = ("entries", "pg_config", "pg_status", "version")


@dataclass(frozen=True, slots=True)
class _Dump:
    """A dump's parts; `lines` are the ordinals of those entries that are dicts."""

    entries: list[dict[Any, Any]]
    lines: list[int]
    config: object = None
    status: object = None
    version: object = None
    bare: bool = False
    problem: str | None = None
    skipped: int = 0


def read(source: Source) -> Frames:
    """Read a dump into entries, templates, groups, positions, stacks and notes.

    `source.kind` is flight_recorder_pickle or flight_recorder_json. Never raises on
    what the file holds; `line` is the 1-based entry.
    """
    try:
        with source.open() as stream:
            data = stream.read(MAX_BYTES + 1)
            damage = getattr(stream, "damage", None)
    except OSError as error:
        return _frames(source, {}, [f"cannot be read: {error.strerror or error}"])
    notes = [f"the file is damaged: {damage}"] if damage else []
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES]
        notes.append(f"larger than {MAX_BYTES >> 20} MiB: the rest is not read")
    if not data:
        return _frames(source, {}, [*notes, "an empty file: the dump was not written"])
    with uncollected():
        parts, more = _parts(source, data)
    if notes:
        parts["sources"] = pl.DataFrame({"cut": [True]})
    return _frames(source, parts, [*notes, *more])


def parse_version(text: object) -> tuple[int, int] | None:
    """Read a schema version: "2.10" is (2, 10), later than (2, 9)."""
    if type(text) is not str or len(text) > 20:
        return None
    major, _, minor = text.partition(".")
    if not (text.isascii() and major.isdecimal() and minor.isdecimal()):
        return None
    return int(major), int(minor)


def _dump(value: object) -> _Dump:
    """Find the parts of a dump in what was loaded, whatever that is."""
    if isinstance(value, list):
        found: object = value
        dump: dict[Any, Any] = {}
        problem = None
    elif isinstance(value, dict):
        dump = value
        found = dump.get("entries", [])
        known = any(place in dump for place in PLACES)
        problem = None if known else "has none of the keys of a dump"
    else:
        kind = "nothing" if value is None else f"a {type(value).__name__}"
        return _Dump([], [], problem=f"holds {kind}, no dump")
    if not isinstance(found, list | tuple):
        kind = type(found).__name__
        problem, found = f"its entries are a {kind}, no list", ()
    left_out = max(0, len(found) - MAX_ENTRIES)
    if left_out:
        problem = (
            f"more than {MAX_ENTRIES:,} entries: the first {left_out} are not read"
        )
    entries = list(found[-MAX_ENTRIES:])
    lines = list(range(left_out + 1, len(found) + 1))
    if set(map(type, entries)) - {dict}:
        whole = [(e, n) for e, n in zip(entries, lines, strict=True) if type(e) is dict]
        entries, lines = [e for e, _ in whole], [n for _, n in whole]
    return _Dump(
        entries,
        lines,
        dump.get("pg_config"),
        dump.get("pg_status"),
        dump.get("version"),
        isinstance(value, list),
        problem,
        len(found) - left_out - len(entries),
    )


def _ending(loaded: Loaded, size: int, dump: _Dump) -> Iterator[str]:
    """Say where and why the reading of the file ended, if not at its end."""
    count = f"{len(dump.entries)} entries before that were read"
    if loaded.problem is None:
        if loaded.end < size:
            yield f"{size - loaded.end} bytes follow the dump's end: not read"
    elif loaded.problem == "cut":
        yield f"the dump is cut at byte {loaded.end}: {count}"
    elif loaded.problem.startswith("refused"):
        what = loaded.problem.removeprefix("refused ")
        yield (
            f"asks for {what} at byte {loaded.end}, which no dump does:"
            f" refused, nothing was executed; {count}"
        )
    else:
        yield f"the dump ends at byte {loaded.end}, {loaded.problem}: {count}"


def _parts(source: Source, data: bytes) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Turn a file's bytes into frames without rank and source, and notes."""
    if source.kind != "flight_recorder_pickle":
        return _read(source, fr_json.load(data), len(data))
    short = None
    if len(data) >= FEWEST_BYTES:
        # numpy takes a tenth of a second to import, which small dumps do not need
        from ncclforensics.parsers.fr_repeats import shortened

        short = shortened(data)
    if short is not None and len(short.repeats) <= MAX_ENTRIES:
        loaded = unpickler.load(short.data)
        if loaded.problem is None and short.agrees(_dump(loaded.value).entries):
            try:
                return _read(source, loaded, len(short.data), short)
            except IrregularError:
                pass
    return _read(source, unpickler.load(data), len(data))


def _read(
    source: Source, loaded: Loaded, size: int, short: Shortened | None = None
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Turn a dump of `size` bytes, whole or shortened, into frames and notes.

    Raises IrregularError where a shortened one holds what is not of its field's type,
    for then every entry has to be looked at.
    """
    dump = _dump(loaded.value)
    notes = list(_ending(loaded, size, dump))
    made: Calls | None = None
    fields = Columns(0)
    if dump.entries:
        fields = columns(dump.entries)
        try:
            made = calls(fields)
        except UnicodeEncodeError:  # half of a surrogate pair, which no dump writes
            fields = columns(dump.entries, careful=True)
            made = calls(fields)
    if made and short:
        if fields.odd:
            raise IrregularError
        made = replace(made, numbers=made.numbers.gather(short.repeats))
        fields = short.spread(fields)
        dump = replace(dump, lines=[n + 1 for n in range(fields.height)])
    first = made.first if made else {}
    found = groups(dump.config, first, source.rank)
    positions, odd = position_rows(dump.status, made, found)
    lines = {group: dump.lines[entry] for group, entry in first.items()}
    parts = {"groups": group_rows(found, lines), "positions": positions}
    if made:
        frames = pluck(dump.entries, "frames")
        odd_stacks = [k for k in map(type, frames or ()) if k not in STACK_TYPES]
        if odd_stacks:
            fields.odd["frames"] = len(odd_stacks)
        of_entries = short.kept.tolist() if short else range(fields.height)
        at = [dump.lines[n] for n in of_entries]
        ids, parts["stacks"] = stacks(frames, len(dump.entries), at)
        own = pl.Series("line", dump.lines, dtype=pl.Int64)
        parts["entries"] = entries(fields, made).hstack(
            [(ids.gather(short.repeats) if short else ids).alias("stack"), own]
        )
        parts["templates"] = templates(made, found.places.get).with_columns(
            own.gather(made.firsts)
        )
    cut = loaded.problem is not None
    parts["sources"] = pl.DataFrame({"cut": [cut]})
    if dump.entries or not cut:
        notes += [
            *_remarks(dump, fields, cut),
            *_oddities(dump, fields, found.odd, odd),
        ]
    return parts, notes


def _remarks(dump: _Dump, fields: Columns, cut: bool) -> Iterator[str]:
    """Note what a sound dump cannot show; one that is `cut` may lack its version."""
    if not dump.entries and dump.problem is None:
        yield "no entries: what this rank called is unknown"
    oldest = fields.number("record_id").min()
    if isinstance(oldest, int) and oldest > 0:
        yield (
            f"the oldest entry is record {oldest}: earlier calls have left the ring"
            " buffer or were not dumped; they are unseen, not absent"
        )
    version = parse_version(dump.version)
    if version is None and not (dump.bare or dump.problem or cut):
        yield "no readable schema version: read by its keys"
    elif version and version[0] > NEWEST[0]:
        newest = ".".join(map(str, NEWEST))
        yield f"schema {dump.version} is not known yet: read like {newest}"


def _oddities(dump: _Dump, fields: Columns, config: int, status: int) -> Iterator[str]:
    """Note what was not of the type that it should have."""
    if dump.problem:
        yield dump.problem
    for table in (dump.config, dump.status):
        if isinstance(table, dict) and len(table) > MAX_GROUPS:
            yield f"more than {MAX_GROUPS:,} groups: the others are not read"
    if dump.skipped:
        yield f"{dump.skipped} entries are no dicts: skipped"
    if fields.odd:
        listed = ", ".join(f"{key} ({count})" for key, count in fields.odd.items())
        yield f"fields missing or of an odd type, read as null (entries): {listed}"
    if config:
        yield f"{config} groups of pg_config are not as they should be: members unknown"
    if status:
        yield f"{status} members of pg_status are not as they should be: skipped"


def _frames(source: Source, parts: dict[str, pl.DataFrame], notes: list[str]) -> Frames:
    """Add who and where to the frames, in the schemas' form."""
    if source.rank is None:
        notes = [*notes, "no rank in the file's name: its rows belong to no rank"]
    cite = {"source": source.name, "rank": source.rank}
    schema = tables.SCHEMAS["groups"]
    result = {}
    base = template_base(source.name)
    for name, frame in parts.items():
        if "template" in frame.columns:
            frame = frame.with_columns(pl.col("template") + base)
        constants = [
            pl.Series(c, [value], dtype=schema[c]).new_from_index(0, frame.height)
            for c, value in cite.items()
            if c in tables.SCHEMAS[name]
        ]
        result[name] = tables.conform(name, frame.hstack(constants))
    result["notes"] = tables.noted(Note("parsers", text, source.name) for text in notes)
    return Frames(result)
