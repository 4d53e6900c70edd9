"""The fields of dump entries: their types, and the cleanup of values of a wrong type.

A column is checked as a whole, without a Python step per entry; only a column that
fails is cleaned value by value. Lengths are bounded because a pickle of a few bytes can
reference one list a billion times, and frames copy every value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import polars as pl
from msgspec import Meta

from ncclforensics.parsers.limits import MAX_DIMENSIONS, MAX_NAME, MAX_TENSORS, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=MAX_NAME)]
Sizes = list[Annotated[list[Count], Meta(max_length=MAX_DIMENSIONS)]]

# fields that repeat from step to step
SHARED: Mapping[str, Any] = {
    "pg_id": Count,
    "process_group": Annotated[list[Name], Meta(max_length=2)],
    "profiling_name": Name,
    "is_p2p": bool,
    "input_sizes": Sizes,
    "output_sizes": Sizes,
    "input_dtypes": list[Name],
    "output_dtypes": list[Name],
    "state": Name,
    "retired": bool,
    "timeout_ms": Count,
}
LISTS = {
    "process_group",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
}
# fields that differ from call to call: plain numbers
NUMBERS: Mapping[str, Any] = {
    "record_id": Count,
    "seq_id": Count,
    "collective_seq_id": Count,
    "p2p_seq_id": Count,
    "op_id": Count,
    "time_created_us": Count,
    "time_created_ns": Count,
    "time_discovered_started_ns": Count,
    "time_discovered_completed_ns": Count,
    "duration_ms": float,
}
# fields that are unknown for some calls, or until they complete
OPTIONAL = {"time_discovered_started_ns", "time_discovered_completed_ns", "duration_ms"}


@dataclass(slots=True)
class Columns:
    """Entries as columns of clean values; a field that no entry has is left out.

    `numbers` are integers or floats. `odd` counts, per field, the entries whose value
    was missing or of another type and is now null.
    """

    height: int
    shared: dict[str, list[Any]] = field(default_factory=dict)
    numbers: dict[str, list[Any]] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)

    def number(self, key: str) -> list[Any]:
        """Return a field of NUMBERS, all None if no entry has it."""
        return self.numbers.get(key) or [None] * self.height


def columns(entries: Sequence[dict[Any, Any]], careful: bool = False) -> Columns:
    """Convert entries to clean columns. Never raises on their content.

    `careful` checks value by value that every text can be encoded as UTF-8. Without
    it, the caller has to handle UnicodeEncodeError when it encodes them.
    """
    result = Columns(len(entries))
    for key, kind in SHARED.items():
        values = pluck(entries, key)
        if values is not None:
            if careful or not _fits(kind, values, key in LISTS):
                values = _cleaned(values, kind, key in LISTS)
                result.odd[key] = values.count(None)
            result.shared[key] = values
    for key, kind in NUMBERS.items():
        values = pluck(entries, key)
        if values is not None:
            missing = values.count(None) if key in OPTIONAL else 0
            if not _fits(kind | None, values):
                values = _cleaned(values, kind)
            result.odd[key] = values.count(None) - missing
            result.numbers[key] = values
    result.odd = {key: count for key, count in result.odd.items() if count}
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
    """Return a string, valid as UTF-8 and cut to MAX_TEXT; None for other types."""
    if type(value) is not str:
        return None
    return value[:MAX_TEXT].encode("utf-8", "replace").decode()


def dtype(key: str) -> pl.DataType:
    """Return the polars type of a field of NUMBERS: Int64 or Float64."""
    return pl.Float64() if NUMBERS[key] is float else pl.Int64()


def _fits(kind: Any, values: list[Any], listed: bool = False) -> bool:
    """Whether every value is of type `kind`; the work is bounded."""
    try:
        if listed and sum(map(len, values)) > MAX_TENSORS:
            return False
        msgspec.convert(values, list[kind])
    except (TypeError, msgspec.ValidationError):
        return False
    return True


def _cleaned(values: list[Any], kind: Any, listed: bool = False) -> list[Any]:
    """Replace values of the wrong type, and all beyond MAX_TENSORS, by None."""
    left = MAX_TENSORS
    encoder = msgspec.msgpack.Encoder()
    result: list[Any] = []
    for value in values:
        left -= len(value) if listed and isinstance(value, list | tuple) else 0
        clean = None
        if left >= 0:
            try:
                clean = msgspec.convert(value, kind)
                encoder.encode(clean)
            except (msgspec.ValidationError, UnicodeEncodeError):
                clean = None
        result.append(clean)
    return result
