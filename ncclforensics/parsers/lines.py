"""Reads a text stream as frames of lines, in blocks, whatever its bytes are.

Lines end at LF, as grep and editors count them; a CR stays inside its line. UTF-16
with a byte order mark is decoded; a block that is no valid UTF-8 is decoded with U+FFFD
in place of each bad byte. A line longer than a block comes in pieces of one number.
"""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 32 << 20
_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of a stream, in order: `lines` has `line` Int64 and `raw` String.

    `whole` says whether the last of them ends as a line does.
    """

    lines: pl.DataFrame
    notes: tuple[str, ...] = ()
    whole: bool = True


def blocks(stream: BinaryIO, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of a stream, about `block_bytes` at a time.

    Reads with bounded memory: nothing of a block is kept once the next one is asked
    for. Raises OSError and EOFError as the stream does (a damaged compressed file).
    """
    line = 1
    for data, ends in _pieces(_utf8(stream), block_bytes):
        frame, notes = _decoded(data, line)
        if not ends:
            notes = (*notes, f"line {line + frame.height - 1} is longer than a block")
        yield Block(frame, notes, data.endswith((b"\n", b"\r")))
        line += frame.height if ends else frame.height - 1


def _pieces(stream: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield bytes that end with a line, or (False) inside one that is too long."""
    rest = b""
    while data := stream.read(size):
        data = rest + data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) < size:
            rest = data
            continue
        if cut:
            yield data[:cut], True
            rest = data[cut:]
        else:
            # a progress bar redraws at CR; cutting there keeps its messages whole
            cut = data.rfind(b"\r") + 1 or len(data)
            yield data[:cut], False
            rest = data[cut:]
    if rest:
        yield rest, True


def _decoded(data: bytes, first: int) -> tuple[pl.DataFrame, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    try:
        lines = pl.read_lines(io.BytesIO(data), name="raw")
    except pl.exceptions.ComputeError:
        text = data.decode("utf-8", errors="replace")
        lines = pl.read_lines(io.BytesIO(text.encode()), name="raw")
        bad = lines["raw"].str.contains("\ufffd", literal=True)
        where = first + (bad.arg_max() or 0)
        notes = (f"invalid UTF-8 on {int(bad.sum()):,} lines, first on line {where:,}",)
    numbered = lines.select(
        pl.int_range(first, first + pl.len(), dtype=pl.Int64).alias("line"), "raw"
    )
    return numbered, notes


def _utf8(stream: BinaryIO) -> BinaryIO:
    """Return the stream as UTF-8 where a byte order mark says that it is UTF-16."""
    buffered = io.BufferedReader(_Raw(stream))
    head = buffered.peek(2)[:2]
    encoding = _BOMS.get(head)
    if encoding is None:
        return buffered
    return io.BufferedReader(_Recoded(buffered, encoding))


class _Raw(io.RawIOBase):
    """A readable stream as RawIOBase, so that it can be buffered and peeked into."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Recoded(io.RawIOBase):
    """A stream in another encoding as UTF-8 bytes."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._pending:
            data = self._stream.read(1 << 20)
            text = self._decoder.decode(data, final=not data)
            self._pending = text.lstrip("\ufeff").encode()
            if not data:
                break
        part, self._pending = (
            self._pending[: len(buffer)],
            self._pending[len(buffer) :],
        )
        buffer[: len(part)] = part
        return len(part)
