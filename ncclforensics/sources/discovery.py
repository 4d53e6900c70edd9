"""Turns a user's paths into sources: finds files, opens archives, decides kinds."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ncclforensics.model.errors import reason
from ncclforensics.model.notes import Note
from ncclforensics.sources import (
    archives,
    collected,
    files,
    layouts,
    limits,
    path_check,
    per_host,
)
from ncclforensics.sources.compression import compression_of, open_file
from ncclforensics.sources.files import Found
from ncclforensics.sources.kinds import kind_of
from ncclforensics.sources.model import Discovery, Source
from ncclforensics.sources.names import printable, unique
from ncclforensics.sources.real_paths import roots
from ncclforensics.sources.scratch import EndlessError, Scratch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STDIN = "-"


def discover(paths: Sequence[str], scratch: Path) -> Discovery:
    """Find all files under `paths` and determine their kinds; sorted by name.

    `paths` are directories, files, glob patterns, or `-` for stdin. Archives are
    unpacked into a new directory in `scratch`, which must outlive the sources. Raises
    UsageError for a path or pattern that matches nothing; any other problem becomes a
    note.
    """
    found, notes = files.files(roots([path for path in paths if path != STDIN]))
    stage = _Stage(Scratch(scratch), notes)
    if STDIN in paths:
        stage.take_stdin()
    for file in found:
        stage.take(file, depth=0)
    placed = collected.placed(stage.settled())
    ordered = sorted(placed, key=lambda source: (source.name, str(source.path)))
    names = unique(source.name for source in ordered)
    named = zip(ordered, names, strict=True)
    return Discovery(
        tuple(s if s.name == n else replace(s, name=n) for s, n in named),
        tuple(sorted(notes, key=lambda note: (note.source or "", note.text))),
    )


@dataclass(slots=True)
class _Stage:
    """The sources and notes of a discovery in progress."""

    scratch: Scratch
    notes: list[Note]
    sources: list[Source] = field(default_factory=list)
    # why the rank that a path tells may be another number, by place in `sources`
    doubted: dict[int, str] = field(default_factory=dict)

    def note(self, text: str, name: str) -> None:
        self.notes.append(Note("sources", text, name))

    def take_stdin(self) -> None:
        stream = getattr(sys.stdin, "buffer", None) or io.BytesIO()
        try:
            stored = self.scratch.keep(stream.read, limits.MAX_UNPACKED_BYTES)
        except (EndlessError, OSError) as error:
            self.note(f"cannot be kept: {error}", "stdin")
            return
        if stored.damage:
            self.note(f"kept up to byte {stored.bytes}: {stored.damage}", "stdin")
        self.take(Found("stdin", stored.path, "stdin"), depth=0)

    def take(self, file: Found, depth: int) -> None:
        """Add a file, or if it is an archive, its members."""
        place = file.name, file.path, "unknown"
        try:
            told = file.path.stat()
            compression, head, tail, damage = _ends(file.path)
        except (OSError, ValueError) as error:
            why = f"cannot be read: {reason(error)}"
            self.note(why, file.name)
            self.sources.append(Source(*place, why))
            return
        when = told.st_mtime_ns or None
        source = Source(*place, "", compression, told.st_size, when)
        if form := archives.format_of(head):
            self._take_archive(form, file, source, depth)
        elif compression and not head:
            why = f"gives nothing, {damage or f'{compression}: no content'}"
            self.note(why, file.name)
            self.sources.append(replace(source, why=why))
        else:
            self._take_file(file, source, head, tail)

    def _take_archive(self, form: str, file: Found, source: Source, depth: int) -> None:
        packed = f"{form} archive" + (
            f" in {source.compression}" if source.compression else ""
        )
        if depth >= limits.MAX_DEPTH or (form == "zip" and source.compression):
            self.note(f"{packed} inside an archive, not opened", file.name)
            self.sources.append(
                replace(source, kind="archive", why=f"{packed}, not opened")
            )
            return
        contents = archives.unpack(form, file.path, source.compression, self.scratch)
        for text, member in contents.notes:
            inside = f"!{printable(member)}" if member is not None else ""
            self.note(text, file.name + inside)
        if contents.why_not:
            self.sources.append(replace(source, why=contents.why_not))
        elif not contents.members:
            why = f"{packed} with no member that can be read"
            self.sources.append(replace(source, kind="archive", why=why))
        for member, path in contents.members.items():
            name = f"{file.name}!{printable(member)}"
            self.take(Found(name, path, f"{file.layout}!{member}"), depth + 1)

    def _take_file(self, file: Found, source: Source, head: bytes, tail: bytes) -> None:
        kind, why = kind_of(head, tail)
        who: dict[str, Any] = dict(layouts.read(file.layout, kind))
        if kind == "log":
            for said, reason in path_check.objections(head, who).items():
                if said == "rank" and path_check.is_of_one_rank(head):
                    self.doubted[len(self.sources)] = reason
                else:
                    self._object(file.name, said, who.pop(said), reason)
        self.sources.append(replace(source, kind=kind, why=why, **who))

    def _object(self, name: str, said: str, value: object, reason: str) -> None:
        self.note(f"the path says {said} {value}, but {reason}: it is ignored", name)

    def settled(self) -> list[Source]:
        """Return the sources without the ranks that their own lines contradict."""
        told = per_host.recounted(self.sources)
        for place, why in self.doubted.items():
            source = told[place]
            if source.rank is not None:
                self._object(source.name, "rank", source.rank, why)
                told[place] = replace(source, rank=None)
        return told


def _ends(path: Path) -> tuple[str | None, bytes, bytes, str | None]:
    """Return compression, first bytes (decompressed), last bytes if needed, damage."""
    with open_file(path, None) as file:
        head = file.read(limits.HEAD_BYTES)
        tail = b""
        if len(head) == limits.HEAD_BYTES and not head.strip(b"\0"):
            file.seek(-limits.TAIL_BYTES, io.SEEK_END)
            tail = file.read(limits.TAIL_BYTES)
    compression = compression_of(head)
    if compression is None:
        return None, head, tail, None
    with open_file(path, compression) as unpacked:
        return compression, unpacked.read(limits.HEAD_BYTES), b"", unpacked.damage
