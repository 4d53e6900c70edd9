"""The one place that unpickles: plain values or nothing.

A pickle is a program. This one may build dicts, lists, tuples, strings and numbers;
the moment it asks for a class, a persistent object or an extension it is refused, and
since every call needs a class first, nothing is ever executed. What the C unpickler
cannot finish (cut, damaged, refused) is read again by `recovery`, which keeps what
was whole before the end.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ncclforensics.parsers.flight_recorder.memory import ceiling
from ncclforensics.parsers.flight_recorder.pickle_probe import deadline, survives
from ncclforensics.parsers.flight_recorder.recovery import Loaded, recover

if TYPE_CHECKING:
    from collections.abc import Iterator


class RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that is not plain data."""


class PlainUnpickler(pickle.Unpickler):
    """The C unpickler without classes and persistent objects."""

    def find_class(self, module: str, name: str, /) -> object:
        """Refuse: every class and function goes through here."""
        raise RefusedError(f"class {module}.{name}"[:200])

    def persistent_load(self, pid: object, /) -> object:
        """Refuse: an object that lives outside of the pickle."""
        raise RefusedError("a persistent object")


class _Stream:
    """Bytes as the C unpickler likes them.

    `peek` gives everything at once, which makes it as fast as pickle.loads; there is no
    `readinto`, with which CPython prints an error of its own on a cut bytearray.
    """

    def __init__(self, data: bytes) -> None:
        self._bytes = data
        self._data = memoryview(data)
        self.position = 0

    def peek(self, _size: int, /) -> memoryview:
        return self._data[self.position :]

    def read(self, size: int, /) -> bytes:
        start = self.position
        self.position = min(start + size, len(self._data))
        return bytes(self._data[start : self.position])

    def readline(self) -> bytes:
        end = self._bytes.find(b"\n", self.position) + 1
        return self.read((end or len(self._data)) - self.position)


def load(data: bytes) -> Loaded:
    """Unpickle plain data; never raises.

    What is cut, damaged or asks for a class comes back as far as it was whole, with
    `problem` saying why it ends at byte `end`.
    """
    if not survives(lambda: _loaded(data), len(data)):
        loaded = recover(data)
        reason = loaded.problem or "damaged: its keys nest without end"
        return Loaded(loaded.value, loaded.end, reason)
    try:
        value, end = _loaded(data)
    except RefusedError as refused:
        loaded = recover(data)
        return Loaded(loaded.value, loaded.end, f"refused {refused}")
    except Exception as error:  # damaged opcodes raise about anything
        loaded = recover(data)
        if loaded.problem is None:
            reason = str(error) or type(error).__name__
            return Loaded(loaded.value, loaded.end, f"damaged: {reason[:80]}")
        return loaded
    if end < len(data) and not isinstance(value, dict | list):
        return recover(data)
    return Loaded(value, end, None)


@contextmanager
def _unprinted() -> Iterator[None]:
    """Keep CPython from printing an error of its own, beside the one that it raises.

    It does where it has no memory for a bytearray, of whose exports it reads garbage.
    """
    printing = sys.excepthook
    sys.excepthook = lambda *_: None
    try:
        yield
    finally:
        sys.excepthook = printing


def _loaded(data: bytes) -> tuple[object, int]:
    """Return what the C unpickler makes of `data`, and where it ended."""
    stream = _Stream(data)
    with ceiling(), deadline(len(data)), _unprinted():
        return PlainUnpickler(stream).load(), stream.position
