"""The one place that unpickles: plain values or nothing.

A pickle is a program. This one may build dicts, lists, tuples, strings and numbers;
the moment it asks for a class, a persistent object or an extension it is refused, and
since every call needs a class first, nothing is ever executed. What the C unpickler
cannot finish (cut, damaged, refused) is read again by `fr_recovery`, which keeps what
was whole before the end.
"""

from __future__ import annotations

import io
import pickle

from ncclforensics.parsers.fr_memory import ceiling
from ncclforensics.parsers.fr_recovery import Loaded, recover


class RefusedError(pickle.UnpicklingError):
    """The pickle asks for something that is not plain data."""


class PlainUnpickler(pickle.Unpickler):
    """The C unpickler without classes and persistent objects."""

    def find_class(self, module: str, name: str, /) -> object:
        """Refuse: every class and function goes through here."""
        raise RefusedError(f"{module}.{name}")

    def persistent_load(self, pid: object, /) -> object:
        """Refuse: an object that lives outside of the pickle."""
        raise RefusedError("a persistent object")


def load(data: bytes) -> Loaded:
    """Unpickle plain data; never raises.

    What is cut, damaged or asks for a class comes back as far as it was whole, with
    `problem` saying why it ends at byte `end`.
    """
    stream = io.BufferedReader(io.BytesIO(data))  # the C unpickler is slow without peek
    try:
        with ceiling():
            value = PlainUnpickler(stream).load()
        end = stream.tell()
    except Exception as error:  # damaged opcodes raise about anything
        loaded = recover(data)
        if loaded.problem is None:
            reason = str(error) or type(error).__name__
            return Loaded(loaded.value, loaded.end, f"damaged: {reason}")
        return loaded
    if end < len(data) and not isinstance(value, dict | list):
        return recover(data)
    return Loaded(value, end, None)
