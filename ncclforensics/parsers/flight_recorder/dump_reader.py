"""Reads Flight Recorder dumps, pickle or JSON, of torch 2.2 and later.

A dump contains neither rank nor world size: the rank comes from the file name. Damaged
values become null, with a note.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ncclforensics.model import tables
from ncclforensics.model.errors import reason
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note
from ncclforensics.parsers.flight_recorder import (
    dump_parts,
    dump_rows,
    json_dump,
    unpickler,
)
from ncclforensics.parsers.flight_recorder.collectives import calls
from ncclforensics.parsers.flight_recorder.dump_rows import Content, Entries
from ncclforensics.parsers.flight_recorder.fields import Columns, columns, pluck
from ncclforensics.parsers.flight_recorder.groups import groups, positions
from ncclforensics.parsers.flight_recorder.memory import uncollected
from ncclforensics.parsers.flight_recorder.opcodes import IrregularError, Walks
from ncclforensics.parsers.flight_recorder.pickle_probe import in_a_child
from ncclforensics.parsers.flight_recorder.stacks import Interner
from ncclforensics.parsers.limits import MAX_BYTES, MAX_ENTRIES, MAX_FRAMES, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ncclforensics.parsers.flight_recorder.dump_parts import Dump
    from ncclforensics.parsers.flight_recorder.entry_layouts import Layout
    from ncclforensics.parsers.flight_recorder.expand import Shortened
    from ncclforensics.parsers.flight_recorder.recovery import Loaded
    from ncclforensics.sources.model import Source

# smaller pickles gain nothing from being shortened first
FEWEST_BYTES = 1 << 16
STACK_TYPES = (list, tuple, type(None))


@cache
def _walks() -> Walks:
    return Walks()


@cache
def _layouts() -> list[Layout]:
    return []


@dataclass(frozen=True, slots=True)
class Beside:
    """State shared by dumps: interned stacks, entry structures and layouts.

    Stacks are shared by dumps read together; the other two by all of the process.
    """

    stacks: Interner = field(default_factory=Interner)
    walks: Walks = field(default_factory=_walks)
    layouts: list[Layout] = field(default_factory=_layouts)


def read(source: Source) -> Frames:
    """Parse one dump: see `read_all`."""
    return read_all([source])


def read_all(sources: Sequence[Source]) -> Frames:
    """Parse dumps into entries, templates, groups, positions, stacks and notes.

    Each `source.kind` is flight_recorder_pickle or flight_recorder_json. Never raises
    on file content. `line` is the 1-based ordinal of the entry. `sources` has one row
    per dump, in order, with `cut`, `rows` and `sha256`.
    """
    beside = Beside()
    found = []
    told = []
    notes: list[Note] = []
    with unpickler.tried(_small(sources)):
        for source in sources:
            content, texts, sha256 = _content(source, beside)
            if content is not None:
                found.append((source, content))
            cut = content.cut if content else None
            rows = content.rows if content else 0
            own = {"source": source.name, "cut": cut, "rows": rows, "sha256": sha256}
            told.append(own)
            notes += (Note("parsers", text, source.name) for text in texts)
    manifest = {"sources": tables.rows("sources", told), "notes": tables.noted(notes)}
    return Frames(dump_rows.frames(found, beside.stacks) | manifest)


def _small(sources: Sequence[Source]) -> Iterator[bytes]:
    """Yield the pickles of which a child each would cost more than to read them."""
    if not in_a_child():
        return
    for source in sources:
        if source.kind == "flight_recorder_pickle" and source.bytes < FEWEST_BYTES:
            with suppress(OSError), source.open() as stream:
                data = stream.read(FEWEST_BYTES)
                if len(data) < FEWEST_BYTES:
                    yield data


def _content(
    source: Source, beside: Beside
) -> tuple[Content | None, list[str], str | None]:
    """Return (content, notes, SHA-256) of one file.

    The content is None if nothing can be read; the hash is None unless the file was
    read to its end.
    """
    try:
        with source.open(hashed=True) as stream:
            data = stream.read(MAX_BYTES + 1)
        content, notes = _of_data(source, data, stream.damage, beside)
        sha256 = stream.sha256
    except OSError as error:
        content, sha256 = None, None
        notes = [f"cannot be read: {reason(error)}"]
    if source.rank is None:
        notes = [*notes, "no rank in the file's name: its rows belong to no rank"]
    return content, notes, sha256


def _of_data(
    source: Source, data: bytes, damage: str | None, beside: Beside
) -> tuple[Content | None, list[str]]:
    notes = [f"the file is damaged: {damage}"] if damage else []
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES]
        notes.append(f"larger than {MAX_BYTES >> 20} MiB: the rest is not read")
    if not data:
        return None, [*notes, "an empty file: the dump was not written"]
    with uncollected():
        content, more = _parts(source, data, beside)
    return replace(content, cut=content.cut or bool(notes)), [*notes, *more]


def _parts(source: Source, data: bytes, beside: Beside) -> tuple[Content, list[str]]:
    """Parse the bytes of a file; returns its content and notes."""
    if source.kind != "flight_recorder_pickle":
        return _read(source, beside, json_dump.load(data), len(data))
    short = None
    if len(data) >= FEWEST_BYTES:
        # importing numpy takes a tenth of a second; small dumps do without it
        from ncclforensics.parsers.flight_recorder.dedup import shortened

        short = shortened(data, beside.walks, beside.layouts)
    if short is not None and len(short.repeats) <= MAX_ENTRIES:
        loaded = unpickler.load(short.data)
        entries = dump_parts.parts(loaded.value).entries
        if loaded.problem is None and short.agrees(entries):
            try:
                return _read(source, beside, loaded, len(short.data), short)
            except IrregularError:
                pass
    return _read(source, beside, unpickler.load(data), len(data))


def _read(
    source: Source,
    beside: Beside,
    loaded: Loaded,
    size: int,
    short: Shortened | None = None,
) -> tuple[Content, list[str]]:
    """Parse a dump of `size` bytes, whole or shortened; returns content and notes.

    Raises IrregularError if a shortened dump has a value of the wrong type, an item
    that is not an entry, or a stack that is the list of entries itself: every entry
    then has to be checked.
    """
    dump = dump_parts.parts(loaded.value)
    notes = list(dump_parts.ending(loaded, size, dump))
    own, fields = _entries(dump, beside, short) if dump.entries else (None, Columns(0))
    found = groups(dump.config, own.calls.first if own else (), source.rank)
    placed, odd = positions(dump.status, _last(own) if own else {}, found)
    cut = loaded.problem is not None
    if own or not cut:
        notes += [
            *dump_parts.remarks(dump, _oldest(fields, short), cut),
            *dump_parts.oddities(dump, fields, found.odd, odd),
        ]
    if own and any(len(beside.stacks.stacks[n]) == MAX_FRAMES for n in own.stacks):
        notes.append(f"of stacks the innermost {MAX_FRAMES} frames are kept")
    names = (text for group in found.members for text in group if text)
    is_long = own and not beside.stacks.cut.isdisjoint(own.stacks)
    if is_long or any(len(text) >= MAX_TEXT for text in names):
        notes.append(f"of long texts the first {MAX_TEXT:,} characters are kept")
    return Content(found, placed, own, cut), notes


def _entries(
    dump: Dump, beside: Beside, short: Shortened | None
) -> tuple[Entries, Columns]:
    """Convert the entries of a dump that has some to columns, calls and stacks."""
    fields = columns(dump.entries)
    try:
        made = calls(fields)
    except UnicodeEncodeError:  # half a surrogate pair, which torch never writes
        fields = columns(dump.entries, careful=True)
        made = calls(fields)
    frames = pluck(dump.entries, "frames")
    odd_stacks = [k for k in map(type, frames or ()) if k not in STACK_TYPES]
    if odd_stacks:
        fields.odd["frames"] = len(odd_stacks)
    if short and (fields.odd or dump.skipped or _any_is(frames, dump.entries)):
        raise IrregularError
    stacks = beside.stacks.numbers(frames or [None] * len(dump.entries))
    lines = (short.kept + 1).tolist() if short else dump.lines
    first = dict(zip(reversed(stacks), reversed(lines), strict=True))
    return Entries(fields, made, lines, stacks, first, short), fields


def _any_is(stacks: list[Any] | None, entries: list[dict[Any, Any]]) -> bool:
    """Whether a stack is the list of entries itself, which may be self-referential."""
    lists = (stack for stack in stacks or () if type(stack) is list)
    return any(stack and stack[0] is entries[0] for stack in lists)


def _last(own: Entries) -> dict[str | None, bool]:
    """Return for each pg_id whether its last entry is point-to-point."""
    every = range(own.columns.height - 1, -1, -1)
    return own.calls.last(own.short.latest() if own.short else every)


def _oldest(fields: Columns, short: Shortened | None) -> object:
    told = [*fields.number("record_id"), short and short.least("record_id")]
    return min((n for n in told if n is not None), default=None)
