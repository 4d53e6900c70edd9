"""The fields of a dump's entries: which type each has, and what to do if it has not.

A column is checked as a whole, without a Python step per entry; only a column that
fails is cleaned value by value. The check also bounds how far shared values unfold: a
pickle of some bytes may hold one list a billion times, and frames share nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# values of one column, all entries together; 2,000 coalesced calls of 500 tensors
# with four dimensions have 4 million
MAX_LEAVES = 16_000_000
MAX_CHARS = 64_000_000
# longer names are cut; the longest real one seen is a C++ frame of 2,000 characters
MAX_TEXT = 8_192
MAX_INT = 2**63


@dataclass(frozen=True, slots=True)
class Shape:
    """A value's type: `leaf` inside of `depth` lists."""

    leaf: type
    depth: int = 0


# what calls have in common; it repeats from step to step
SHARED: Mapping[str, Shape] = {
    "pg_id": Shape(int),
    "process_group": Shape(str, depth=1),
    "profiling_name": Shape(str),
    "is_p2p": Shape(bool),
    "input_sizes": Shape(int, depth=2),
    "output_sizes": Shape(int, depth=2),
    "input_dtypes": Shape(str, depth=1),
    "output_dtypes": Shape(str, depth=1),
    "state": Shape(str),
    "retired": Shape(bool),
    "timeout_ms": Shape(int),
}
# what differs from call to call: plain numbers
NUMBERS: Mapping[str, type] = {
    "record_id": int,
    "seq_id": int,
    "collective_seq_id": int,
    "p2p_seq_id": int,
    "op_id": int,
    "time_created_us": int,
    "time_created_ns": int,
    "time_discovered_started_ns": int,
    "time_discovered_completed_ns": int,
    "duration_ms": float,
}
# not known for every call, or not yet
OPTIONAL = {"time_discovered_started_ns", "time_discovered_completed_ns", "duration_ms"}


@dataclass(slots=True)
class Columns:
    """Entries as columns of clean values; a field that no entry has is left out.

    `shared` has lists, `numbers` Series (Int64, Float64). `odd` counts, per field, the
    entries whose value was missing or of another type and is null now.
    """

    height: int
    shared: dict[str, list[Any]] = field(default_factory=dict)
    numbers: dict[str, pl.Series] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)

    def number(self, key: str) -> pl.Series:
        """Return a field of NUMBERS, all null if no entry has it."""
        found = self.numbers.get(key)
        if found is None:
            return pl.Series([None], dtype=_dtype(key)).new_from_index(0, self.height)
        return found


def columns(entries: Sequence[dict[Any, Any]]) -> Columns:
    """Turn entries into clean columns. Raises nothing for what they hold."""
    result = Columns(len(entries))
    for key, shape in SHARED.items():
        values = pluck(entries, key)
        if values is not None:
            if not _fits(values, shape):
                values, result.odd[key] = _cleaned(values, _cleaner(shape))
            result.shared[key] = values
    for key in NUMBERS:
        values = pluck(entries, key)
        if values is not None:
            result.numbers[key], odd = _numbers(key, values)
            if odd:
                result.odd[key] = odd
    return result


def pluck(entries: Sequence[dict[Any, Any]], key: str) -> list[Any] | None:
    """Return each entry's value of `key` (or None); None if no entry has one."""
    if key in entries[0]:
        try:
            return list(map(itemgetter(key), entries))
        except KeyError:
            pass
    values = [entry.get(key) for entry in entries]
    return None if values.count(None) == len(values) else values


def text_of(value: Any) -> str | None:
    """Return a string that UTF-8 can hold and of bounded length, None if it is none."""
    if type(value) is not str:
        return None
    return value[:MAX_TEXT].encode("utf-8", "replace").decode()


def _dtype(key: str) -> pl.DataType:
    return pl.Float64() if NUMBERS[key] is float else pl.Int64()


def _numbers(key: str, values: list[Any]) -> tuple[pl.Series, int]:
    """Build the Series of a field, and count what is null in it but should not be."""
    try:
        series = pl.Series(values, dtype=_dtype(key))
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        clean, odd = _cleaned(values, _cleaner(Shape(NUMBERS[key])))
        missing = values.count(None) if key in OPTIONAL else 0
        return pl.Series(clean, dtype=_dtype(key)), odd - missing
    return series, 0 if key in OPTIONAL else series.null_count()


def _fits(values: list[Any], shape: Shape) -> bool:
    """Tell whether every value has the shape, in a bounded amount of work."""
    level: list[Any] = values
    for _ in range(shape.depth):
        if not set(map(type, level)) <= {list, tuple}:
            return False
        if sum(map(len, level)) > MAX_LEAVES:
            return False
        level = list(chain.from_iterable(level))
    if not set(map(type, level)) <= {shape.leaf}:
        return False
    if shape.leaf is int and level:
        return min(level) >= -MAX_INT and max(level) < MAX_INT
    return shape.leaf is not str or _writable(level)


def _writable(texts: list[str]) -> bool:
    """Tell whether the texts are short and UTF-8 can hold them (no lone surrogates)."""
    if sum(map(len, texts)) > MAX_CHARS:
        return False
    different = set(texts)
    if max(map(len, different), default=0) > MAX_TEXT:
        return False
    try:
        "".join(different).encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(values: list[Any], clean: Callable[[Any], Any]) -> tuple[list[Any], int]:
    """Clean each value, and count those of which nothing is left."""
    result = list(map(clean, values))
    return result, result.count(None)


def _cleaner(shape: Shape) -> Callable[[Any], Any]:
    """Return a function that gives None for what does not have the shape.

    It counts over all its calls: beyond the limits everything is None.
    """
    leaves, chars = MAX_LEAVES, MAX_CHARS

    def clean(value: Any, depth: int = shape.depth) -> Any:
        nonlocal leaves, chars
        if not depth:
            found = _leaf(value, shape.leaf)
            chars -= len(found) if type(found) is str else 0
            return found if chars >= 0 else None
        if type(value) not in (list, tuple) or len(value) > leaves:
            return None
        leaves -= len(value)
        items = [clean(item, depth - 1) for item in value]
        return None if None in items else items

    return clean


def _leaf(value: Any, kind: type) -> Any:
    if kind is str:
        return text_of(value)
    if type(value) is int and kind in (int, float):
        return kind(value) if -MAX_INT <= value < MAX_INT else None
    return value if type(value) is kind else None
