"""Reads what is new in growing files, wherever rotation has moved them.

Files are polled with stat. Notification by inotify does not see what another host
writes to a shared file system, and logs of a job lie on one; a library with a polling
mode of its own would stat the same files a second time, for the inode and size that
are needed here. A file is known by device and inode, so one that was renamed goes on
where it was. One that shrank, or whose bytes before the offset are others now, was
truncated and is read from its start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from ncclforensics.model.errors import UsageError
from ncclforensics.sources import files, layouts, limits, real_paths
from ncclforensics.sources.compression import compression_of
from ncclforensics.sources.kinds import kind_of
from ncclforensics.sources.model import Source

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

BACKLOG_BYTES = 2 << 20  # read of a file that was there before
BACKLOG_TOTAL = 32 << 20  # of all files together
LEAST_BACKLOG = 16 << 10
BLOCK_BYTES = 8 << 20  # read of one file in one look; the rest follows in the next
MARK_BYTES = 64  # kept of what stands before the offset
LINE_BYTES = 64 << 10  # a line that is longer is cut there
DUMPS = ("flight_recorder_pickle", "flight_recorder_json", "ras_json")
CUT = b"\0"  # held before a line whose beginning is not read


@dataclass(slots=True)
class Tail:
    """A file and how far it was read; `source.kind` is one of kinds.KINDS."""

    number: int
    source: Source
    offset: int = 0
    held: bytes = b""  # a line whose end is not written yet
    mark: bytes = b""  # the bytes just before `offset`
    head: bytes = b""  # the first bytes of the file
    before: tuple[bytes, int] = (b"", 0)  # head and offset before it was truncated
    seen: tuple[int, int] = (-1, -1)  # size and time of change at the last look

    @property
    def is_dump(self) -> bool:
        """Whether the file is parsed whole, each time that it was written."""
        return self.source.kind in DUMPS

    @property
    def is_followed(self) -> bool:
        """Whether anything of the file is read."""
        return self.is_dump or self.source.kind == "log"


@dataclass(frozen=True, slots=True)
class New:
    """What is new in a file: whole lines of a log, or a dump.

    `data` is empty for a dump, and for a log whose last line still grows. `written` is
    when the file was last written, in seconds since the epoch. What was there before
    anybody watched is `backlog`.
    """

    tail: Tail
    data: bytes
    written: float
    backlog: bool = False


class Tails:
    """All files under some paths, and what is new in them since the last look."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Follow `paths`; one that is not there yet is waited for.

        Raises UsageError for stdin and object stores, which cannot be followed.
        """
        for path in paths:
            if path == "-" or "://" in path:
                raise UsageError(f"only files can be watched, not {path}")
        self.paths = paths
        self.tails: dict[tuple[int, int], Tail] = {}
        self._looked = False
        self._count = 0

    @property
    def waited_for(self) -> list[str]:
        """The paths that are not there yet."""
        return [path for path in self.paths if not _there(path)]

    @property
    def followed(self) -> set[str]:
        """The real paths of the files that were found."""
        return {str(tail.source.path) for tail in self.tails.values()}

    def new(self) -> Iterator[New]:
        """Yield what is new since the last look, file by file."""
        found = list(self._found())
        backlog = BACKLOG_TOTAL // max(len(found), 1)
        backlog = min(max(backlog, LEAST_BACKLOG), BACKLOG_BYTES)
        present = set()
        for file in found:
            try:
                told = file.path.stat()
            except OSError:
                continue  # it went away just now
            key = told.st_dev, told.st_ino
            present.add(key)
            tail = self.tails.get(key)
            if tail is None or (not tail.is_followed and tail.seen != _seen(told)):
                tail = self.tails[key] = self._taken(file, told, backlog)
            if tail.seen == _seen(told) or not tail.is_followed:
                tail.seen = _seen(told)
                continue
            if tail.source.path != file.path:  # it was renamed
                tail.source = replace(tail.source, name=file.name, path=file.path)
            is_backlog = not self._looked
            tail.seen = _seen(told)
            data = b"" if tail.is_dump else _read(tail, told.st_size)
            if data or tail.is_dump or tail.held:
                yield New(tail, data, told.st_mtime_ns / 1e9, is_backlog)
        for key in self.tails.keys() - present:
            del self.tails[key]
        self._looked = True

    def _found(self) -> Iterator[files.Found]:
        there = [path for path in self.paths if _there(path)]
        if there:
            found, _ = files.files(real_paths.roots(there))
            yield from found

    def _taken(self, file: files.Found, told: os.stat_result, backlog: int) -> Tail:
        """Return the tail of a file that is new, or was not worth following so far."""
        try:
            with file.path.open("rb") as stream:
                head = stream.read(limits.HEAD_BYTES)
        except OSError:
            head = b""
        kind, why = kind_of(head)
        if compression_of(head) is not None:
            kind = "archive"
        rank = layouts.read(file.layout, kind).get("rank")
        source = Source(
            *(file.name, file.path, kind, why),
            bytes=told.st_size,
            modified=told.st_mtime_ns,
            rank=rank if isinstance(rank, int) else None,
        )
        self._count += 1
        tail = Tail(self._count, source, head=head[:MARK_BYTES])
        if self._looked:
            tail.offset = self._copied(tail, told.st_size)
        elif told.st_size > backlog:
            tail.offset = told.st_size - backlog
            tail.held = CUT
        return tail

    def _copied(self, tail: Tail, size: int) -> int:
        """Return how much of a new file was read where it was copied from.

        `copytruncate` leaves such a copy; 0 for any other file.
        """
        for known in self.tails.values():
            if str(tail.source.path).startswith(str(known.source.path)):
                for head, offset in ((known.head, known.offset), known.before):
                    if head and tail.head.startswith(head) and size >= offset:
                        return offset
        return 0


def _there(path: str) -> bool:
    try:
        return bool(real_paths.roots([path]))
    except UsageError:
        return False


def _seen(told: os.stat_result) -> tuple[int, int]:
    return told.st_size, told.st_mtime_ns


def _read(tail: Tail, size: int) -> bytes:
    """Return the whole lines that were added; b"" if there are none."""
    try:
        with tail.source.path.open("rb") as stream:
            if not _goes_on(tail, stream, size):
                tail.before = tail.head, tail.offset
                tail.offset, tail.held, tail.mark = 0, b"", b""
            stream.seek(tail.offset)
            data = stream.read(BLOCK_BYTES)
            if tail.offset + len(data) < size:
                tail.seen = (-1, 0)  # there is more: look again
            if tail.offset == 0:
                tail.head = data[:MARK_BYTES]
    except OSError:
        return b""
    tail.offset += len(data)
    tail.mark = (tail.mark + data)[-MARK_BYTES:]
    return _whole_lines(tail, data)


def _goes_on(tail: Tail, stream: BinaryIO, size: int) -> bool:
    """Whether a file still holds what was read of it."""
    if size < tail.offset:
        return False
    if not tail.mark:
        return True
    start = tail.offset - len(tail.mark)
    stream.seek(start)
    return stream.read(len(tail.mark)) == tail.mark


def _whole_lines(tail: Tail, data: bytes) -> bytes:
    """Return `data` up to its last end of a line, behind what was held."""
    whole = tail.held + data
    # progress bars end their lines with a carriage return
    end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
    if not end and len(whole) > LINE_BYTES:
        end = len(whole)
    tail.held = whole[end:]
    whole = whole[:end]
    if whole.startswith(CUT):
        whole = whole[whole.find(b"\n") + 1 :]
    return whole
