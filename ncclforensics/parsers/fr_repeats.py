"""Takes out of a dump's pickle the entries that repeat an earlier one.

A training loop makes the same calls again and again: of some thousand entries all but a
few dozen have the bytes of an earlier one except for the arguments of a few number
opcodes. Unpickled, such an entry is the earlier one with other numbers. So numpy reads
these where they stand, all entries of one length at a time, and only what is left is
unpickled. A pickle that is not as regular as this is not shortened at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ncclforensics.parsers import fr_opcodes as ops
from ncclforensics.parsers.fr_fields import NUMBERS
from ncclforensics.parsers.fr_opcodes import IrregularError
from ncclforensics.parsers.fr_spread import Numbers, Shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.parsers.fr_opcodes import Part, Walks

    Array = np.ndarray[Any, np.dtype[Any]]

# entries of one length that are worth a look together
FEWEST = 4
# entries that may stay: some that every dump has, and a share of all
SOME, SHARE = 64, 1 / 2
# places of the memo, for each that is written, up to which a table of them pays
SPARSEST = 8

_PUT = rb"(?:q.|r.{4}|\x94)?"
_KEPT = re.compile(_PUT[:-1], re.DOTALL)
# a list of entries up to the name of its first one's first member
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
# what stands between entries where a pickler ends one batch and begins the next
_BETWEEN = re.compile(rb"(?:e\(|\x95.{8})*", re.DOTALL)
_TYPES = {ord("K"): "<u1", ord("M"): "<u2", ord("J"): "<i4", ord("G"): ">f8"}


@dataclass(slots=True)
class _Pickle:
    """A pickle cut at its entries.

    The first entry, number 0, is in the `head`; entry n is between starts[n - 1] and
    starts[n], the last one with all that follows. `texts` are what the head keeps.
    `parts` are those entries that were
    walked, `counts` says how many values each keeps without writing out their places.
    """

    data: bytes
    starts: Array
    head: Part
    texts: dict[bytes, bytes]
    walks: Walks
    repeats: Array
    counts: Array
    parts: dict[int, Part] = field(default_factory=dict)
    numbers: list[Numbers] = field(default_factory=list)
    places: list[Array] = field(default_factory=list)


def shortened(data: bytes, walks: Walks) -> Shortened | None:
    """Take repeated entries out of a pickle; None if it is not regular enough.

    `walks` are those of the dumps beside it, whose entries are built alike.
    """
    try:
        pickle = _cut(data, walks)
        lengths = np.diff(pickle.starts)[:-1]  # the last one is kept
        for length in np.unique(lengths):
            entries = np.flatnonzero(lengths == length) + 1
            while len(entries) >= FEWEST:
                entries = _compare(pickle, entries, int(length))
        return _without_repeats(pickle)
    except IrregularError:
        return None


def _cut(data: bytes, walks: Walks) -> _Pickle:
    found = _LIST.search(data)
    if found is None:
        raise IrregularError
    named = found.end() + (found["long"] or found["short"])[0]
    behind = _KEPT.match(data, named)
    if behind is None:
        raise IrregularError
    first = walks.walk(data, 0, behind.end())
    texts = ops.texts(data, first)
    if not texts:
        raise IrregularError
    fetched = re.escape(b"(" + next(reversed(texts)))
    entry = re.compile(rb"\}" + _PUT + fetched, re.DOTALL)
    starts = list(map(re.Match.start, entry.finditer(data, named)))
    if len(starts) < FEWEST:
        raise IrregularError
    head = walks.walk(data, 0, starts[0])
    count = len(starts) + 1
    return _Pickle(
        data,
        np.array([*starts, len(data)]),
        head,
        ops.texts(data, head),
        walks,
        np.arange(count),
        np.zeros(count, np.int64),
        places=[_places(data, 0, head)],
    )


def _places(data: bytes, start: int, part: Part) -> Array:
    """Return the places in the memo that a part writes out."""
    row = data[start : start + len(part.kinds)]
    return np.array([ops.number(row[at]) for at in part.places], np.int64)


def _compare(pickle: _Pickle, entries: Array, length: int) -> Array:
    """Find the repeats among entries of one length; return those built otherwise."""
    starts = pickle.starts[entries - 1]
    part = _entry(pickle, int(entries[0]))
    row = pickle.data[starts[0] : starts[0] + length]
    numbers = []
    kinds = np.array(part.kinds)
    for code, op, at in part.numbers:
        key = pickle.texts.get(row[code], b"").decode("latin-1")
        if key in NUMBERS and (op != ops.LONG1 or at.stop - at.start == 8):
            kinds[at] = ops.NUMBER
            numbers.append((key, _TYPES.get(op, "<i8"), at))
    windows = np.ndarray(
        (len(pickle.data) - length + 1, length), np.uint8, pickle.data, strides=(1, 1)
    )
    rows = windows[starts]
    first, which, repeat = _alike(rows, kinds <= ops.CONTENT)
    # what repeats an entry of another structure has that structure, too
    fixed = kinds == ops.STRUCTURE
    other = ((rows[first] != rows[0]) & fixed).any(axis=1)
    alike = ~other[which] & repeat
    others = entries[~alike]
    entries, rows, first = entries[alike], rows[alike], entries[first[which]][alike]
    pickle.repeats[entries] = first
    pickle.counts[entries] = len(part.memoized)
    pickle.parts.update(dict.fromkeys(entries.tolist(), part))
    for key, dtype, at in numbers:
        values = np.ascontiguousarray(rows[:, at]).view(dtype)
        pickle.numbers.append(Numbers(key, entries, values[:, 0]))
    _keep_places(pickle, rows, kinds)
    left: Array = others
    return left


def _alike(rows: Array, same: Array) -> tuple[Array, Array, Array]:
    """Sort rows by their bytes where `same` is set.

    Returns which rows are the first of their sort, which of these each row is like, and
    whether it is: their sums may agree by chance, or on purpose.
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


def _keep_places(pickle: _Pickle, rows: Array, kinds: Array) -> None:
    """Read the places in the memo that entries of one kind write out."""
    at = np.flatnonzero(kinds == ops.PLACE)
    if not len(at):
        return
    for run in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1):
        wide = np.zeros((len(rows), 8), np.uint8)
        wide[:, : len(run)] = rows[:, run]
        pickle.places.append(wide.view(np.int64)[:, 0])


def _entry(pickle: _Pickle, number: int) -> Part:
    """Walk one entry, which has to be whole and nothing but an entry."""
    start, end = map(int, pickle.starts[number - 1 : number + 1])
    part = pickle.walks.walk(pickle.data, start, end)
    if part.closed is None:
        raise IrregularError
    between = _BETWEEN.fullmatch(pickle.data, start + part.closed, end)
    if between is None and end < len(pickle.data):
        raise IrregularError
    return part


def _without_repeats(pickle: _Pickle) -> Shortened:
    numbers = np.arange(len(pickle.repeats))
    kept = np.flatnonzero(pickle.repeats == numbers)
    if len(kept) > SOME + SHARE * len(numbers):
        raise IrregularError
    for number in map(int, kept[1:]):
        if number not in pickle.parts:
            part = pickle.parts[number] = _entry(pickle, number)
            pickle.counts[number] = len(part.memoized)
            start = int(pickle.starts[number - 1])
            pickle.places.append(_places(pickle.data, start, part))
    # a place that is written twice would be another value for those in between
    places = np.concatenate(pickle.places)
    if not _differ(places):
        raise IrregularError
    implicit = bool(pickle.head.memoized)
    if implicit and len(places):
        raise IrregularError
    pieces = list(
        _written_out(pickle, kept) if implicit else _as_they_are(pickle, kept)
    )
    return Shortened(
        b"".join(pieces),
        kept,
        np.searchsorted(kept, pickle.repeats),
        tuple(pickle.numbers),
    )


def _differ(numbers: Array) -> bool:
    """Whether no number comes twice; a pickler counts, so few are left out."""
    top = int(numbers.max(initial=0))
    if top > SPARSEST * len(numbers):
        return len(np.unique(numbers)) == len(numbers)
    met = np.zeros(top + 1, bool)
    met[numbers] = True
    return int(np.count_nonzero(met)) == len(numbers)


def _as_they_are(pickle: _Pickle, kept: Array) -> Iterator[bytes]:
    starts = pickle.starts.tolist()
    yield pickle.data[: starts[0]]
    for number in kept[1:].tolist():
        yield pickle.data[starts[number - 1] : starts[number]]


def _written_out(pickle: _Pickle, kept: Array) -> Iterator[bytes]:
    """Write out the places of the memo, which protocol 4 counts; drop its frames."""
    before = len(pickle.head.memoized) + np.cumsum(pickle.counts) - pickle.counts
    starts = [0, *pickle.starts.tolist()]
    for number in kept.tolist():
        part = pickle.parts[number] if number else pickle.head
        start, end = starts[number], starts[number + 1]
        place = int(before[number]) if number else 0
        seams = [(at, True) for at in part.memoized] + [
            (at, False) for at in part.frames
        ]
        done = start
        for at, is_put in sorted(seams):
            yield pickle.data[done : start + at]
            if is_put:
                yield b"r" + place.to_bytes(4, "little")
                place += 1
            done = start + at + (1 if is_put else 9)
        yield pickle.data[done:end]
