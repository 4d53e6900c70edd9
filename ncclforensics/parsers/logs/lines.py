"""Reads a text stream as frames of lines, in blocks, whatever its bytes are.

Lines end at LF, as grep and editors count them; a CR stays inside its line. UTF-16
with a byte order mark is decoded. A block of invalid UTF-8 is decoded with U+FFFD in
place of each bad byte. A line longer than LONGEST_BYTES comes in pieces with the same
line number.
"""

from __future__ import annotations

import codecs
import io
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

FILE = 1 << 40  # lines of several files are numbered FILE * file index + line
# codes of a terminal, and its echo of a key: `^C`
ANSI = r"^\^[CZ\\]|\x00|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))"
BLOCK_BYTES = 1 << 20
LONGEST_BYTES = 16 << 20
FEW_BYTES = 1 << 16  # that are handled faster without numpy or polars
LF, CR = b"\n\r"
ROOM = 2 << 20  # bytes of a text for which each thread keeps room
_of_thread = threading.local()
DENSE = 8  # picking one run of lines of so many costs as much as splitting all
TAIL_BYTES = 1 << 17  # of a block's end, where `last` looks for the last lines first
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BOMS = dict(zip(UTF16, ("utf-16-le", "utf-16-be"), strict=True))


@dataclass(slots=True)
class Block:
    """Consecutive lines of a stream: `count` of them, from line number `first` on.

    `data` holds them as UTF-8, each followed by LF; `offset` is the byte offset of the
    first one in the stream. `bad` counts the lines that were invalid UTF-8, `first_bad`
    is the first of them. If this is a piece of a line longer than LONGEST_BYTES,
    `pieces` is the number of that line. `whole` is whether the last line is terminated.
    """

    data: bytes
    first: int
    _count: int | None = None
    offset: int = 0
    bad: int = 0
    first_bad: int | None = None
    pieces: int | None = None
    whole: bool = True
    _lines: pl.DataFrame | None = None
    _ends: Numbers | None = None
    _begins: Numbers | None = None

    @property
    def count(self) -> int:
        """How many lines these are; counted on first use, if they are not split yet."""
        if self._count is None:
            known = self._ends if self._ends is not None else self._lines
            is_open = not self.data.endswith(b"\n")
            many = _newlines(self.data) + is_open if known is None else len(known)
            self._count = many
        return self._count

    @property
    def lines(self) -> pl.DataFrame:
        """The lines as a frame of `line` Int64 and `raw` String.

        Created on first use, because few lines of most blocks are of interest.
        """
        if self._lines is None:
            self._lines = _numbered(_lines(self.data), self.first)
        return self._lines

    @property
    def ends(self) -> Numbers:
        """Where in `data` each line ends: the offset of its LF, Int64."""
        if self._ends is None:
            ends = np.flatnonzero(equal(np.frombuffer(self.data, np.uint8), LF))
            is_whole = self.data.endswith(b"\n")
            self._ends = ends if is_whole else np.append(ends, len(self.data))
        return self._ends

    @property
    def begins(self) -> Numbers:
        """Where in `data` each line begins, Int64."""
        if self._begins is None:
            self._begins = np.append(0, self.ends[:-1] + 1)
        return self._begins

    def rows(self, start: int, end: int) -> pl.DataFrame:
        """Return the lines from row `start` to before row `end`, 0-based."""
        start, end = max(start, 0), min(end, self.count)
        if self._lines is not None or start >= end:
            return self.lines[start : max(start, end)]
        raw = _lines(self.data[self.begin(start) : self.begin(end)])
        return _numbered(raw, self.first + start)

    def pick(self, rows: Numbers) -> pl.DataFrame:
        """Copy the lines in `rows`, distinct and sorted: few bytes of a large block."""
        # neighbours are copied together
        first = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        if self._lines is not None or first.size * DENSE > self.count:
            picked = self.lines[pl.Series(rows)]
            return picked.with_columns(pl.concat_str("raw", pl.lit("")).alias("raw"))
        last = np.append(first[1:], rows.size)[: first.size] - 1
        begins = self.begins[rows[first]].tolist()
        ends = (self.ends[rows[last]] + 1).tolist()
        runs = zip(begins, ends, strict=True)
        raw = _lines(b"".join(self.data[begin:end] for begin, end in runs))
        return pl.DataFrame([pl.Series("line", rows + self.first), raw])

    def begin(self, row: int) -> int:
        """Return where in `data` a row begins, or where the last one ends."""
        return int(self.ends[row - 1]) + 1 if row else 0

    def rows_of(self, places: Numbers) -> Numbers:
        """Return the row, Int64, that holds the byte at each offset in `data`."""
        return self.ends.searchsorted(places)

    def row_of(self, place: int) -> int:
        """Return the row that holds the byte at an offset in `data`."""
        return int(self.ends.searchsorted(place))

    def lines_at(self, places: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Yield number and text of the line that holds the byte at each offset.

        The offsets ascend, so that all LFs are counted at most once.
        """
        if self._lines is not None:
            rows = np.unique(self.rows_of(np.array(places, np.int64)))
            yield from self.pick(rows).iter_rows()
            return
        if self._ends is not None:
            for at in places:
                row = self.row_of(at)
                raw = self.data[self.begin(row) : int(self._ends[row])]
                yield self.first + row, raw.decode().rstrip("\r")
            return
        row = counted = 0
        for at in places:
            start, end = self.data.rfind(b"\n", 0, at) + 1, self.data.find(b"\n", at)
            row, counted = row + _newlines(self.data, counted, start), start
            raw = self.data[start : end if end >= 0 else None]
            yield self.first + row, raw.decode().rstrip("\r")

    def numbers(self, rows: Numbers) -> pl.Series:
        """Return the numbers of the lines in `rows`, Int64."""
        known = self._lines
        if known is None:
            return pl.Series("line", rows + self.first)
        return known["line"].gather(pl.Series(rows))

    def last(self, count: int) -> pl.DataFrame:
        """Return the last `count` lines; splits only the block's end if possible."""
        start = self.data.find(b"\n", max(len(self.data) - TAIL_BYTES, 0)) + 1
        if self._lines is None and start:
            raw = _lines(self.data[start:])
            if raw.len() >= count:
                return _numbered(raw, self.first + self.count - raw.len()).tail(count)
        return self.rows(self.count - count, self.count)


def blocks(
    stream: BinaryIO,
    block_bytes: int = BLOCK_BYTES,
    longest: int = LONGEST_BYTES,
    span: int | None = None,
    offset: int = 0,
) -> Iterator[Block]:
    """Yield the lines of a stream, about `block_bytes` at a time.

    With `span`, blocks are split at multiples of it: a line belongs to the span in
    which it begins, and line numbers restart in each span. `offset` is the current
    position of the stream. Memory is bounded: a block is not retained once the next
    one is requested. Raises OSError and EOFError as the stream does (a damaged
    compressed file).
    """
    line, index = 1, 0
    for data, ends in _pieces(utf8(stream), block_bytes, longest, span, offset):
        if span is not None and offset // span != index:
            line, index = 1, offset // span
        block = decoded(data, line, offset, ends)
        offset += len(data)
        yield block
        # many blocks have been split by now, which counts their lines
        line += block.count if ends else 0


def _pieces(
    stream: BinaryIO, size: int, longest: int, span: int | None, offset: int
) -> Iterator[tuple[bytes, bool]]:
    """Yield (bytes, True) that end with a line, or (bytes, False) within a long one."""
    rest = b""
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        end = offset + len(rest) + cut
        if cut and (span is None or offset // span == end // span):
            # the common case, with as little copying as possible
            data = b"".join((rest, memoryview(chunk)[:cut]))
            rest = chunk[cut:]
            yield data, True
            offset += len(data)
            continue
        data = rest + chunk
        while cut := _cut(data, offset, span):
            yield data[:cut], True
            offset += cut
            data = data[cut:]
        if len(data) >= max(longest, size):
            # a progress bar redraws at CR; cutting there keeps its messages whole
            cut = data.rfind(b"\r") + 1 or len(data)
            yield data[:cut], False
            offset += cut
            data = data[cut:]
        rest = data
    if rest:
        yield rest, True


def _cut(data: bytes, offset: int, span: int | None) -> int:
    """Return where a block of complete lines ends in `data`, 0 if there is none."""
    cut = data.rfind(b"\n") + 1
    if span is None or not cut:
        return cut
    end = (offset // span + 1) * span - offset  # the next multiple of `span`
    return data.find(b"\n", end - 1) + 1 if cut > end else cut


def decoded(data: bytes, line: int, offset: int = 0, ends: bool = True) -> Block:
    """Split bytes into lines, the first with number `line`; `ends` as in `_pieces`."""
    whole = data.endswith((b"\n", b"\r"))
    pieces = None if ends else line
    if b"\r" in data and _has_crlf(data):
        data = data.replace(b"\r\n", b"\n")
    bad, first_bad, lines = 0, None, None
    if not data.isascii():  # most are, and nothing is copied to tell
        try:
            data.decode()
        except ValueError:
            data = data.decode("utf-8", errors="replace").encode()
            raw = _lines(data)
            damaged = raw.str.contains("\ufffd", literal=True)
            bad, first_bad = int(damaged.sum()), line + (damaged.arg_max() or 0)
            lines = _numbered(raw, line)
    return Block(data, line, None, offset, bad, first_bad, pieces, whole, lines)


def _numbered(raw: pl.Series, first: int) -> pl.DataFrame:
    number = pl.int_range(first, first + raw.len(), dtype=pl.Int64, eager=True)
    return pl.DataFrame({"line": number, "raw": raw})


def _newlines(data: bytes, begin: int = 0, end: int | None = None) -> int:
    """Count LFs between two offsets."""
    size = (len(data) if end is None else end) - begin
    if size < FEW_BYTES:
        return data.count(b"\n", begin, begin + size)
    return int(np.count_nonzero(equal(np.frombuffer(data, np.uint8, size, begin), LF)))


def _has_crlf(data: bytes) -> bool:
    """Whether any CR stands before an LF, where progress bars may redraw at CRs."""
    text = np.frombuffer(data, np.uint8)
    return bool((text[1:][equal(text[:-1], CR)] == LF).any())


def equal(text: NDArray[np.uint8], byte: int) -> NDArray[np.bool_]:
    """Return where a byte stands; the array is overwritten by the thread's next call.

    Memory that is not taken anew saves a third of the time.
    """
    if not hasattr(_of_thread, "marks"):
        _of_thread.marks = np.empty(ROOM, np.bool_)
    room = _of_thread.marks[: text.size] if text.size <= ROOM else None
    marks: NDArray[np.bool_] = np.equal(text, byte, out=room)
    return marks


def _lines(data: bytes) -> pl.Series:
    """Split bytes at LF or CRLF; raises ValueError or ComputeError on invalid UTF-8."""
    if len(data) <= FEW_BYTES:  # a tenth of the time that polars takes to begin
        *few, rest = data.replace(b"\r\n", b"\n").decode().split("\n")
        return pl.Series(
            "raw", [*few, rest.removesuffix("\r")] if rest else few, pl.String
        )
    # polars mistakes text that begins with `x^` for a compressed file; an LF avoids it
    return pl.read_lines(io.BytesIO(b"\n" + data), name="raw")["raw"][1:]


def utf8(stream: BinaryIO) -> BinaryIO:
    """Return a stream of UTF-8, recoded if a byte order mark says that it is UTF-16."""
    buffered = (
        stream
        if isinstance(stream, io.BufferedReader)
        else io.BufferedReader(_Raw(stream))
    )
    head = buffered.peek(2)[:2]
    encoding = _BOMS.get(head)
    if encoding is None:
        return buffered
    return io.BufferedReader(_Recoded(buffered, encoding))


class _Raw(io.RawIOBase):
    """Adapts a readable stream to RawIOBase, so that it can be buffered and peeked."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Recoded(io.RawIOBase):
    """Recodes a stream from another encoding to UTF-8."""

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
