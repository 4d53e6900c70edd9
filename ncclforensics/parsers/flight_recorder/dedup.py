"""Removes from a dump's pickle the entries that repeat an earlier one.

A training loop repeats its calls: of a few thousand entries, all but a few dozen have
the bytes of an earlier entry except for the arguments of a few number opcodes. Such an
entry unpickles to the earlier one with different numbers. So numpy reads those numbers
in place, for all entries of one length at a time, and only the remaining entries are
unpickled. A pickle that is not that regular is not shortened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ncclforensics.parsers.flight_recorder import opcodes as ops
from ncclforensics.parsers.flight_recorder.entry_layouts import (
    Column,
    Head,
    Layout,
    find,
    fixed,
    keep,
)
from ncclforensics.parsers.flight_recorder.expand import Shortened
from ncclforensics.parsers.flight_recorder.fields import NUMBERS
from ncclforensics.parsers.flight_recorder.opcodes import IrregularError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.parsers.flight_recorder.opcodes import Part, Walks

    Array = np.ndarray[Any, np.dtype[Any]]

# entries of one length that are worth comparing
FEWEST = 4
# distinct entries allowed: a fixed number, plus a share of all entries
SOME, SHARE = 64, 1 / 2
# highest memo index per written index for which a lookup table pays off
SPARSEST = 8

_PUT = rb"(?:q.|r.{4}|\x94)?"
_KEPT = re.compile(_PUT[:-1], re.DOTALL)
# the list of entries, up to the key of the first member of the first entry
_LIST = re.compile(
    rb"(?:X\x07\0\0\0|\x8c\x07)entries"
    + _PUT
    + rb"\]"
    + _PUT
    + rb"\(\}"
    + _PUT
    + rb"\("
    rb"(?:X(?P<long>[\x01-\x40])\0\0\0|\x8c(?P<short>[\x01-\x40]))",
    re.DOTALL,
)
# opcodes between entries where the pickler ends one batch and begins the next
_BETWEEN = re.compile(rb"(?:e\(|\x95.{8})*", re.DOTALL)
_TYPES = {ord("K"): "<u1", ord("M"): "<u2", ord("J"): "<i4", ord("G"): ">f8"}


@dataclass(slots=True)
class _Entries:
    """The entries of a pickle between the first and the last, while laid out.

    Fields are as in Layout. `kinds` is the kind of each byte. `numbers` maps (key,
    dtype) to pairs of entry numbers and the offsets of their values.
    """

    data: bytes
    head: Head
    walks: Walks
    starts: Array
    kinds: Array
    repeats: Array
    counts: Array
    parts: dict[int, Part] = field(default_factory=dict)
    numbers: dict[tuple[str, str], list[tuple[Array, Array]]] = field(
        default_factory=dict
    )
    texts: dict[bytes, bytes] = field(default_factory=dict)
    places: list[Array] = field(default_factory=list)


def shortened(data: bytes, walks: Walks, known: list[Layout]) -> Shortened | None:
    """Remove repeated entries from a pickle; None if it is not regular enough.

    `walks` and `known` are shared with the other dumps of the job, whose entries have
    the same structure and often the same layout.
    """
    try:
        head = _head(data, walks)
        layout = find(known, data, head)
        if layout is None:
            layout = _laid_out(data, head, walks)
            keep(known, layout)
        return _without_repeats(data, head, layout, walks)
    except IrregularError:
        return None


def _head(data: bytes, walks: Walks) -> Head:
    found = _LIST.search(data)
    if found is None:
        raise IrregularError
    named = found.end() + (found["long"] or found["short"])[0]
    behind = _KEPT.match(data, named)
    if behind is None:
        raise IrregularError
    texts = ops.texts(data, walks.walk(data, 0, behind.end()))
    if not texts:
        raise IrregularError
    fetched = re.escape(b"(" + next(reversed(texts)))
    entry = re.compile(rb"\}" + _PUT + fetched, re.DOTALL)
    second = entry.search(data, named)
    if second is None:
        raise IrregularError
    part = walks.walk(data, 0, second.start())
    return Head(part, second.start(), ops.texts(data, part), entry)


def _laid_out(data: bytes, head: Head, walks: Walks) -> Layout:
    """Find which entries repeat others, and at which bytes they differ."""
    found = list(map(re.Match.start, head.entry.finditer(data, head.end)))
    if len(found) < FEWEST:
        raise IrregularError
    starts = np.array(found) - head.end
    every = np.arange(len(starts) + 1)
    own = _Entries(
        *(data, head, walks, starts),
        kinds=np.zeros(int(starts[-1]), np.uint8),
        repeats=every.copy(),
        counts=np.zeros(len(every), np.int64),
    )
    lengths = np.diff(starts)
    for length in np.unique(lengths):
        entries = np.flatnonzero(lengths == length) + 1
        while len(entries) >= FEWEST:
            entries = _compare(own, entries, int(length))
    kept = np.flatnonzero(own.repeats == every)
    if len(kept) > SOME + SHARE * len(every):
        raise IrregularError
    for number in map(int, kept[1:-1]):
        if number not in own.parts:
            part = own.parts[number] = _entry(own, number)
            own.counts[number] = len(part.memoized)
            start, end = map(int, starts[number - 1 : number + 1])
            own.kinds[start:end] = part.kinds
            own.places.append(_places(data, head.end + start, part))
    repeated = np.bincount(own.repeats)
    free = [
        slice(*starts[number - 1 : number + 1].tolist())
        for number in kept[1:-1].tolist()
        if repeated[number] == 1
    ]
    return Layout(
        starts,
        kept,
        np.searchsorted(kept, own.repeats),
        own.counts,
        np.concatenate([np.zeros(0, np.int64), *own.places]),
        own.parts,
        [*_columns(own, kept)],
        own.texts,
        np.frombuffer(data, np.uint8, len(own.kinds), head.end),
        fixed(own.kinds, free),
    )


def _columns(own: _Entries, kept: Array) -> Iterator[Column]:
    is_kept = own.repeats == np.arange(len(own.repeats))
    for (key, dtype), found in own.numbers.items():
        entries, places = map(np.concatenate, zip(*found, strict=True))
        at = np.flatnonzero(is_kept[entries])
        among = np.searchsorted(kept, entries[at]).tolist()
        yield Column(key, np.dtype(dtype), entries, places, at, among)


def _places(data: bytes, start: int, part: Part) -> Array:
    """Return the memo indices that a part writes explicitly."""
    row = data[start : start + len(part.kinds)]
    return np.array([ops.number(row[at]) for at in part.places], np.int64)


def _compare(own: _Entries, entries: Array, length: int) -> Array:
    """Find repeats among entries of one length; return those of another structure."""
    start = own.head.end + int(own.starts[entries[0] - 1])
    part = _entry(own, int(entries[0]))
    row = own.data[start : start + length]
    numbers = []
    kinds = np.array(part.kinds)
    for code, op, at in part.numbers:
        key = own.head.texts.get(row[code], b"").decode("latin-1")
        if key in NUMBERS and (op != ops.LONG1 or at.stop - at.start == 8):
            kinds[at] = ops.NUMBER
            numbers.append((key, _TYPES.get(op, "<i8"), at.start))
            own.texts[row[code]] = own.head.texts[row[code]]
    at = own.starts[entries - 1]
    rows = _windows(own.data, own.head.end, own.starts[-1], length)[at]
    first, which, repeat = _alike(rows, kinds <= ops.CONTENT)
    # a repeat has the same structure as the entry that it repeats
    fixed = kinds == ops.STRUCTURE
    other = ((rows[first] != rows[0]) & fixed).any(axis=1)
    alike = ~other[which] & repeat
    others: Array = entries[~alike]
    first = entries[first[which]][alike]
    entries, rows, at = entries[alike], rows[alike], at[alike]
    own.repeats[entries] = first
    own.counts[entries] = len(part.memoized)
    own.parts.update(dict.fromkeys(np.unique(first).tolist(), part))
    _windows(own.kinds, 0, own.starts[-1], length)[at] = kinds
    for key, dtype, within in numbers:
        own.numbers.setdefault((key, dtype), []).append((entries, at + within))
    _keep_places(own, rows, kinds)
    return others


def _windows(data: bytes | Array, start: int, size: int, length: int) -> Array:
    """Return a view of all windows of `length` bytes, each one byte after the last."""
    return np.ndarray((size - length + 1, length), np.uint8, data, start, (1, 1))


def _alike(rows: Array, same: Array) -> tuple[Array, Array, Array]:
    """Group rows by their bytes where `same` is set.

    Returns the first row of each group, the group of each row, and whether the row
    really equals the first one: checksums may collide by chance or on purpose.
    """
    count, length = rows.shape
    masked = np.zeros((count, -(-length // 8) * 8), np.uint8)
    np.multiply(rows, same, out=masked[:, :length])
    words = masked.view(np.uint64)
    factors = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    _, first, which = np.unique(words @ factors, return_index=True, return_inverse=True)
    return first, which, (words == words[first[which]]).all(axis=1)


def _keep_places(own: _Entries, rows: Array, kinds: Array) -> None:
    """Read the memo indices that entries of one structure write explicitly."""
    at = np.flatnonzero(kinds == ops.PLACE)
    if not len(at):
        return
    for run in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1):
        wide = np.zeros((len(rows), 8), np.uint8)
        wide[:, : len(run)] = rows[:, run]
        own.places.append(wide.view(np.int64)[:, 0])


def _entry(own: _Entries, number: int) -> Part:
    """Walk one entry; raises IrregularError unless it is exactly one whole entry."""
    start, end = (own.starts[number - 1 : number + 1] + own.head.end).tolist()
    part = own.walks.walk(own.data, start, end)
    if part.closed is None or not _BETWEEN.fullmatch(
        own.data, start + part.closed, end
    ):
        raise IrregularError
    return part


def _without_repeats(
    data: bytes, head: Head, layout: Layout, walks: Walks
) -> Shortened:
    """Drop the repeated entries of a pickle that has this layout."""
    start = head.end + len(layout.data)
    last = walks.walk(data, start, len(data))
    if last.closed is None:
        raise IrregularError
    outer = [_places(data, 0, head.part), _places(data, start, last)]
    # a memo index written twice would change the value for the entries in between
    places = np.concatenate([*outer, layout.places])
    if not _differ(places):
        raise IrregularError
    implicit = bool(head.part.memoized)
    if implicit and len(places):
        raise IrregularError
    pieces = _written_out if implicit else _as_they_are
    return Shortened(
        b"".join(pieces(data, head, layout, last)),
        layout.kept,
        layout.repeats,
        tuple(column.read(data, head.end) for column in layout.columns),
    )


def _differ(numbers: Array) -> bool:
    """Whether all numbers are distinct; picklers count up, so they are dense."""
    top = int(numbers.max(initial=0))
    if top > SPARSEST * len(numbers):
        return len(np.unique(numbers)) == len(numbers)
    met = np.zeros(top + 1, bool)
    met[numbers] = True
    return int(np.count_nonzero(met)) == len(numbers)


def _pieces(
    data: bytes, head: Head, layout: Layout, last: Part
) -> Iterator[tuple[int, int, int, Part]]:
    """Yield (number, start, end, part) per kept entry; the first one is the head."""
    yield 0, 0, head.end, head.part
    between = layout.kept[1:-1]
    starts = (layout.starts[between - 1] + head.end).tolist()
    ends = (layout.starts[between] + head.end).tolist()
    for number, start, end in zip(between.tolist(), starts, ends, strict=True):
        yield number, start, end, layout.parts[number]
    yield len(layout.starts), head.end + len(layout.data), len(data), last


def _as_they_are(
    data: bytes, head: Head, layout: Layout, last: Part
) -> Iterator[bytes]:
    for _, start, end, _ in _pieces(data, head, layout, last):
        yield data[start:end]


def _written_out(
    data: bytes, head: Head, layout: Layout, last: Part
) -> Iterator[bytes]:
    """Make protocol 4's implicit memo indices explicit, and drop its frames."""
    before = len(head.part.memoized) + np.cumsum(layout.counts) - layout.counts
    for number, start, end, part in _pieces(data, head, layout, last):
        place = int(before[number]) if number else 0
        seams = [(at, True) for at in part.memoized] + [
            (at, False) for at in part.frames
        ]
        done = start
        for at, is_put in sorted(seams):
            yield data[done : start + at]
            if is_put:
                yield b"r" + place.to_bytes(4, "little")
                place += 1
            done = start + at + (1 if is_put else 9)
        yield data[done:end]
