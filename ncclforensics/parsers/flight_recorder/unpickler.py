"""The one place that unpickles: plain values or nothing.

A pickle is a program. Here it may build dicts, lists, tuples, strings and numbers. A
request for a class, a persistent object or an extension is refused, and since every
call needs a class first, nothing is ever executed. What the C unpickler cannot finish
(truncated, damaged, refused) is read again by `recovery`, which keeps everything that
was complete before that point.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ncclforensics.parsers.flight_recorder.memory import ceiling
from ncclforensics.parsers.flight_recorder.pickle_probe import deadline, survives
from ncclforensics.parsers.flight_recorder.recovery import Loaded, recover

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_survived: frozenset[bytes] = frozenset()  # pickles that a child has loaded


class RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that is not plain data."""


class PlainUnpickler(pickle.Unpickler):
    """The C unpickler without classes and persistent objects."""

    def find_class(self, module: str, name: str, /) -> object:
        """Refuse; every class and function lookup goes through here."""
        raise RefusedError(f"class {module}.{name}"[:200])

    def persistent_load(self, pid: object, /) -> object:
        """Refuse an object that is stored outside of the pickle."""
        raise RefusedError("a persistent object")


class _Stream:
    """A byte stream that suits the C unpickler.

    `peek` returns everything at once, which makes it as fast as pickle.loads. There is
    no `readinto`, because with it CPython prints an error of its own on a truncated
    bytearray.
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


@contextmanager
def tried(pickles: Iterable[bytes]) -> Iterator[None]:
    """Load pickles in one child: in the body, those need no child each.

    If it does not survive one of them, each has a child of its own, as without this.
    """
    global _survived
    several = frozenset(pickles)

    def load_all() -> None:
        for data in several:
            with suppress(Exception):
                _loaded(data)

    if len(several) > 1 and survives(load_all, sum(map(len, several))):
        _survived = several
    try:
        yield
    finally:
        _survived = frozenset()


def load(data: bytes) -> Loaded:
    """Unpickle plain data; never raises.

    If the pickle is truncated, damaged or requests a class, returns what was complete
    before byte `end`, with the reason in `problem`.
    """
    if data not in _survived and not survives(lambda: _loaded(data), len(data)):
        loaded = recover(data)
        reason = loaded.problem or "damaged: its keys nest without end"
        return Loaded(loaded.value, loaded.end, reason)
    try:
        value, end = _loaded(data)
    except RefusedError as refused:
        loaded = recover(data)
        return Loaded(loaded.value, loaded.end, f"refused {refused}")
    except Exception as error:  # damaged opcodes may raise any exception
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
    """Keep CPython from printing an error in addition to the one that it raises.

    It prints one if it has no memory for a bytearray, because it then reads garbage as
    the bytearray's export count.
    """
    printing = sys.excepthook
    sys.excepthook = lambda *_: None
    try:
        yield
    finally:
        sys.excepthook = printing


def _loaded(data: bytes) -> tuple[object, int]:
    """Return the value that the C unpickler loads from `data`, and where it ended."""
    stream = _Stream(data)
    with ceiling(), deadline(len(data)), _unprinted():
        return PlainUnpickler(stream).load(), stream.position
