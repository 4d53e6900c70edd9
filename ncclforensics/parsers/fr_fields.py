"""The fields of a dump's entries: which type each has, and what to do if it has not.

A column is checked as a whole, without a Python step per entry; only a column that
fails is cleaned value by value. The check also bounds how far shared values unfold: a
pickle of some bytes may hold one list a billion times, and frames share nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# values of one column, all entries together; 2,000 coalesced calls of 500 tensors
# with four dimensions have 4 million
MAX_LEAVES = 16_000_000
MAX_CHARS = 64_000_000
# longer names are cut; the longest real one seen is a C++ frame of 2,000 characters
MAX_TEXT = 8_192
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Shape:
    """A value's type: `leaf` inside of `depth` lists. `optional` may be None."""

    leaf: type
    depth: int = 0
    optional: bool = False


FIELDS: Mapping[str, Shape] = {
    "record_id": Shape(int),
    "pg_id": Shape(int),
    "process_group": Shape(str, depth=1),
    "seq_id": Shape(int),
    "collective_seq_id": Shape(int),
    "p2p_seq_id": Shape(int),
    "op_id": Shape(int),
    "profiling_name": Shape(str),
    "is_p2p": Shape(bool),
    "input_sizes": Shape(int, depth=2),
    "output_sizes": Shape(int, depth=2),
    "input_dtypes": Shape(str, depth=1),
    "output_dtypes": Shape(str, depth=1),
    "state": Shape(str),
    "retired": Shape(bool),
    "time_created_us": Shape(int),
    "time_created_ns": Shape(int),
    "time_discovered_started_ns": Shape(int, optional=True),
    "time_discovered_completed_ns": Shape(int, optional=True),
    "duration_ms": Shape(float, optional=True),
    "timeout_ms": Shape(int),
}


@dataclass(slots=True)
class Columns:
    """Entries as columns that fit FIELDS; a field that no entry has is not there.

    `odd` counts, per field, the entries whose value was missing or of another type and
    is None now.
    """

    height: int
    values: dict[str, list[Any]] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, key: str) -> list[Any]:
        """Return a field's values, all None if no entry has it."""
        return self.values.get(key) or [None] * self.height


def columns(entries: Sequence[dict[Any, Any]]) -> Columns:
    """Turn entries into clean columns. Raises nothing for what they hold."""
    result = Columns(len(entries))
    for key, shape in FIELDS.items():
        values = pluck(entries, key)
        if values is None:
            continue
        if not _fits(values, shape):
            values, result.odd[key] = _cleaned(values, shape)
        result.values[key] = values
    result.odd = {key: count for key, count in result.odd.items() if count}
    return result


def pluck(entries: Sequence[dict[Any, Any]], key: str) -> list[Any] | None:
    """Return each entry's value of `key`, None where missing; None if no entry has it."""
    if key not in entries[0] and not any(key in entry for entry in entries):
        return None
    try:
        return list(map(itemgetter(key), entries))
    except KeyError:
        return [entry.get(key) for entry in entries]


def _fits(values: list[Any], shape: Shape) -> bool:
    """Tell whether every value has the shape, in a bounded amount of work."""
    level: list[Any] = values
    for _ in range(shape.depth):
        if not set(map(type, level)) <= {list, tuple}:
            return False
        if sum(map(len, level)) > MAX_LEAVES:
            return False
        level = list(chain.from_iterable(level))
    kinds = set(map(type, level))
    if shape.optional:
        kinds.discard(type(None))
    if shape.leaf is float:
        return kinds <= {float, int}
    if not kinds <= {shape.leaf}:
        return False
    if shape.leaf is int:
        known = list(filter(None, level))
        return not known or -_INT64 <= min(known) <= max(known) < _INT64
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


def _cleaned(values: Iterable[Any], shape: Shape) -> tuple[list[Any], int]:
    """Give None for what does not have the shape, and how many values that were."""
    budget = [MAX_LEAVES]
    result = []
    odd = 0
    for value in values:
        clean = _clean(value, shape, shape.depth, budget)
        odd += clean is None and not (value is None and shape.optional)
        result.append(clean)
    return result, odd


def _clean(value: Any, shape: Shape, depth: int, budget: list[int]) -> Any:
    if depth:
        if type(value) not in (list, tuple) or len(value) > budget[0]:
            return None
        items = []
        for item in value:
            budget[0] -= 1
            clean = _clean(item, shape, depth - 1, budget)
            if clean is None or budget[0] < 0:
                return None
            items.append(clean)
        return items
    if shape.leaf is str:
        return text_of(value)
    if shape.leaf is float and type(value) is int:
        return float(value) if abs(value) < _INT64 else None
    if type(value) is not shape.leaf:
        return None
    if shape.leaf is int and not -_INT64 <= value < _INT64:
        return None
    return value


def text_of(value: Any) -> str | None:
    """Return a string that UTF-8 can hold and of bounded length, None if it is none."""
    if type(value) is not str:
        return None
    return value[:MAX_TEXT].encode("utf-8", "replace").decode()
