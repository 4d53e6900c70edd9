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
    """A file of the evidence, or a member of an archive in it.

    `name` is unique, printable and the same on every machine; `path` is the local path
    of the bytes. `kind` is one of kinds.KINDS, decided by content, and `why` is the
    reason in one line. `bytes` is the stored size (compressed, if it is), `modified`
    the modification time in UTC nanoseconds, None if unknown (in a zip, whose times
    have no zone). The other fields come from the layout of the path, None if it lacks
    them: `rank` is global, `attempt` counts restarts from 0, `stream` is stdout or
    stderr.
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
        """Return the content as a binary stream, decompressed if necessary.

        Reading never raises on damage: the stream ends where the file is truncated,
        damaged or unpacks without end, and its `damage` then says why. With `hashed`,
        its `sha256` is set once the end was read. Raises OSError if the file cannot be
        opened or read at all.
        """
        return open_file(self.path, self.compression, hashed)


@dataclass(frozen=True, slots=True)
class Discovery:
    """All sources, sorted by name, and notes on what was skipped or refused."""

    sources: tuple[Source, ...]
    notes: tuple[Note, ...]

    def under(self, name: str) -> Discovery:
        """Return a copy with all names below the folder `name`; itself for ""."""
        if not name:
            return self
        prefix = f"{printable(name)}/"
        return Discovery(
            tuple(replace(s, name=prefix + s.name) for s in self.sources),
            tuple(
                replace(n, source=n.source and prefix + n.source) for n in self.notes
            ),
        )
