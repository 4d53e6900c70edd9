"""The lines of one file of the evidence by number, read on demand.

A file is never loaded whole. An index counts the lines of each block, and grows in a
worker while what is known can already be shown. A compressed file, or one in UTF-16, is
first copied as plain UTF-8 into a folder for scratch.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from ncclforensics.model.errors import reason
from ncclforensics.parsers.logs.lines import utf8
from ncclforensics.sources.compression import open_file
from ncclforensics.tui.model.excerpt import PIECE, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ncclforensics.sources import Source

BLOCK = 1 << 20  # bytes that one entry of the index stands for
ROOM = 1 << 28  # bytes that a copy leaves free on the disk of the scratch folder
MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16
BINARY = ("flight_recorder_pickle", "pickle", "archive", "empty", "unknown")


class GoneError(Exception):
    """The file cannot be shown: one line that says why."""


def state(source: Source) -> str:
    """Return "" if a file is as it was read, else how it changed since.

    Raises GoneError if it is not there or is no text.
    """
    if not is_text(source):
        raise GoneError(f"{source.name} has no lines: {source.why or source.kind}")
    try:
        now = source.path.stat()
    except OSError as error:
        raise GoneError(f"{source.name} is gone: {reason(error)}") from error
    if now.st_size < source.bytes:
        return "shorter than when it was read: lines may differ"
    if now.st_size > source.bytes:
        return "longer than when it was read"
    touched = source.modified is not None and now.st_mtime_ns != source.modified
    return "changed since it was read: lines may differ" if touched else ""


def is_text(source: Source) -> bool:
    """Whether a file has lines to show."""
    return source.kind not in BINARY


def copied(source: Source, scratch: Path) -> Iterator[Path]:
    """Yield the path of a file's text as UTF-8, repeatedly until it is complete.

    It is the file itself if that is plain, else a copy below `scratch`. Raises OSError,
    also where the copy would fill the disk.
    """
    with open_file(source.path, None) as file:
        is_plain = source.compression is None and file.read(2) not in MARKS
    if is_plain:
        yield source.path
        return
    copy = scratch / f"plain-{source.path.name[:80]}-{os.urandom(4).hex()}"
    with source.open() as packed, copy.open("xb") as file:
        stream = utf8(packed)
        while chunk := stream.read(BLOCK):
            if shutil.disk_usage(scratch).free < ROOM + len(chunk):
                raise OSError("no room to unpack it")
            file.write(chunk)
            file.flush()
            yield copy
    yield copy


class LogFile:
    """Lines of the file at `path`, which is plain UTF-8, by 1-based number."""

    def __init__(self, path: Path) -> None:
        """Open a file. Raises OSError."""
        self.path = path
        self._file = open_file(path, None)
        self._ends: list[int] = []  # how many lines end up to the end of each block
        self._rest = b""  # the start of a line without an end, after the last LF
        self.is_whole = False

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def indexed(self) -> Iterator[int]:
        """Extend the index to the end of the file; yields the lines known so far."""
        with open_file(self.path, None) as file:
            while block := file.read(BLOCK):
                before = self._ends[-1] if self._ends else 0
                self._rest = block[-1:]
                self._ends.append(before + block.count(b"\n"))
                yield self.count
        self.is_whole = True
        yield self.count

    @property
    def count(self) -> int:
        """The number of lines known so far."""
        last = self._ends[-1] if self._ends else 0
        return last + (self._rest not in (b"", b"\n"))

    def lines(self, first: int, count: int) -> list[str]:
        """Return up to `count` lines from `first` on, sanitized; [] beyond the end.

        A long line is cut, so that memory is bounded.
        """
        start = self._offset(first)
        if start is None:
            return []
        self._file.seek(start)
        found: list[str] = []
        while len(found) < count and (piece := self._file.readline(PIECE)):
            found.append(shown(piece))
            while piece and not piece.endswith(b"\n"):
                piece = self._file.readline(PIECE)
        return found

    def _offset(self, line: int) -> int | None:
        """Return the byte at which a line begins, None if it is not known."""
        before = line - 1  # as many lines end before it
        if before <= 0:
            return 0
        number = bisect_left(self._ends, before)
        if number == len(self._ends):
            return None
        self._file.seek(number * BLOCK)
        block = np.frombuffer(self._file.read(BLOCK), np.uint8)
        ends = np.flatnonzero(block == ord("\n"))
        own = before - (self._ends[number - 1] if number else 0)
        return number * BLOCK + int(ends[own - 1]) + 1 if own <= ends.size else None
