"""Reads a document that is parsed as a whole, and names what damage in it may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.notes import Note

if TYPE_CHECKING:
    from ncclforensics.sources import Source

# raised by a document that is cut, nested too deep, or of another shape than expected
DAMAGE = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


def whole(source: Source, most: int) -> bytes:
    """Return the bytes of a source; raises ValueError if it has more than `most`."""
    with source.open() as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is larger than {most >> 20} MiB")
    return data


def damaged(source: Source, why: str) -> Frames:
    """Return nothing but the note that says why a document was not read."""
    return Frames({"notes": tables.noted([Note("parsers", why, source.name)])})
