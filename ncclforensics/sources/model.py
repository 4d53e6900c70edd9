"""A `Source` per file of the evidence, and the notes of this stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncclforensics.sources.compression import Reader, open_file
from ncclforensics.sources.names import printable

if TYPE_CHECKING:
    from pathlib import Path

    from ncclforensics.model.notes import Note


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the evidence, or a member of an archive there.

    `name` is unique, printable and the same on every machine; `path` is where the bytes
    lie now. `kind` is one of kinds.KINDS, decided from the content, and `why` says in
    one line from what. `bytes` is the size as it lies there (of a compressed file: the
    packed size), `modified` when the file was last written, in UTC nanoseconds, None
    where that is not known (in a zip, whose times have no zone). The rest is what the
    layout of the path tells, None where it does not: `rank` is global, `attempt` counts
    restarts from 0, `stream` is stdout or stderr.
    """

    name: str
    path: Path
    kind: str
    why: str
    compression: str | None = None
    bytes: int = 0
    modified: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    host: str | None = None
    stream: str | None = None
    pid: int | None = None

    def open(self, hashed: bool = False) -> Reader:
        """Return the content as a binary stream, unpacked if it is compressed.

        Reading never raises on damage: the stream ends where the file is cut, damaged
        or unpacks without end, and its `damage` then says why, for the reader to note.
        `hashed`, it knows the file's SHA-256 when it comes to the end. Raises OSError
        where the file cannot be opened or read at all.
        """
        return open_file(self.path, self.compression, hashed)


@dataclass(frozen=True, slots=True)
class Discovery:
    """All sources, sorted by name, and what was skipped or refused on the way."""

    sources: tuple[Source, ...]
    notes: tuple[Note, ...]

    def under(self, name: str) -> Discovery:
        """Return the same, with all files in a folder `name`; the same for ""."""
        if not name:
            return self
        prefix = f"{printable(name)}/"
        return Discovery(
            tuple(replace(s, name=prefix + s.name) for s in self.sources),
            tuple(
                replace(n, source=n.source and prefix + n.source) for n in self.notes
            ),
        )
