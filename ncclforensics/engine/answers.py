"""Keeps whole analyses, so that a second look at the same evidence takes no time.

The key covers the question, the code, and of each file its name, inode, size, and the
times of its last write and change, as they were before it was read. No program can set
the time of a change back, so equal keys are equal files. Only a file that changed
moments before it was read may have changed again within one tick of the clock: its
hash is compared too. An entry that is damaged counts as none.

Imports neither polars nor a parser: the report alone is there before these are loaded.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ncclforensics.engine import store
from ncclforensics.model.errors import UsageError
from ncclforensics.report.contract import Report  # noqa: TC001 - msgspec reads it
from ncclforensics.sources import discover, files, real_paths
from ncclforensics.sources.compression import digest
from ncclforensics.sources.model import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ncclforensics.model.frames import Frames

# an analysis that took less is as fast again
PAYS_SECONDS = 0.2
# a file that was changed so shortly before is hashed; file systems count in 2 s at most
RECENT_NS = 2_000_000_000
INDEX = "answer.json"
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Look:
    """Evidence and question at one moment: the key of the answer, and the files.

    `recent` are those of the `files`, all by path, whose times do not prove enough.
    """

    key: str
    files: frozenset[str]
    recent: frozenset[str]


class Answer(msgspec.Struct, frozen=True):
    """A kept analysis, which took `seconds`.

    `hashes` are the SHA-256 of recent files by path, `frames` those of the files in the
    entry. `sources` is None for unpacked archives: these are gone.
    """

    report: Report
    seconds: float
    sources: tuple[dict[str, str | int | None], ...] | None
    hashes: dict[str, str]
    frames: dict[str, str]

    def files(self) -> tuple[Source, ...] | None:
        """Return the sources; None if they have to be unpacked again."""
        if self.sources is None:
            return None
        return tuple(
            Source(**{**row, "path": Path(str(row["path"]))})  # type: ignore[arg-type]
            for row in self.sources
        )


@dataclass(frozen=True, slots=True)
class Again:
    """A kept analysis with all of its frames, and files that can be opened."""

    report: Report
    frames: Frames
    sources: tuple[Source, ...]
    seconds: float


def asked(
    world_size: int | None = None,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    part: str | None = None,
    since: int | None = None,
    until: int | None = None,
) -> str:
    """Return the options that affect an answer, for `look`."""
    return repr((world_size, sorted(select), sorted(ignore), part, since, until))


def look(paths: Sequence[str], question: str) -> Look | None:
    """Return the key of an answer; None if stdin or an object store is read.

    Raises UsageError for a path that matches nothing.
    """
    if any(path == STDIN or "://" in path for path in paths):
        return None
    now = time.time_ns()
    found, notes = files.files(real_paths.roots(paths))
    key = hashlib.sha256(f"{store.code()} {question} {notes!r}".encode())
    recent = set()
    for file in found:
        try:
            told = file.path.stat()
        except OSError:
            return None
        stamp = (told.st_dev, told.st_ino, told.st_size)
        times = (told.st_mtime_ns, told.st_ctime_ns)
        key.update(repr((file, stamp, times)).encode())
        if max(times) > now - RECENT_NS:
            recent.add(str(file.path))
    paths_ = frozenset(str(file.path) for file in found)
    return Look(key.hexdigest()[:32], paths_, frozenset(recent))


def find(root: Path, seen: Look) -> tuple[Answer, Path] | None:
    """Return the answer of an earlier run and the folder of its frames, or None."""
    entry = store.entry(root, seen.key)
    if entry is None:
        return None
    try:
        sha256, _, data = (entry / INDEX).read_bytes().partition(b"\n")
        if hashlib.sha256(data).hexdigest().encode() != sha256:
            return None
        answer = msgspec.json.decode(data, type=Answer)
        for path, known in answer.hashes.items():
            if digest(Path(path)) != known:
                return None
    except (OSError, msgspec.DecodeError):
        return None
    store.used(entry)
    return answer, entry


def report(root: Path | None, paths: Sequence[str]) -> Answer | None:
    """Return the answer to a question without options, if it is there and whole."""
    try:
        seen = None if root is None else look(paths, asked())
    except UsageError:
        return None  # the analysis says so
    found = None if root is None or seen is None else find(root, seen)
    return None if found is None else found[0]


def again(root: Path, seen: Look, paths: Sequence[str], scratch: Path) -> Again | None:
    """Return the analysis of an earlier run, or None; unpacks archives in `scratch`."""
    found = find(root, seen)
    if found is None:
        return None
    from ncclforensics.engine import dataset, frame_files

    answer, entry = found
    frames = frame_files.load(entry, answer.frames)
    if frames is None:
        return None
    sources = answer.files()
    if sources is None:
        packed = [path for path in paths if not dataset.is_one(path)]
        sources = discover(packed, scratch).sources
    return Again(answer.report, frames, sources, answer.seconds)


def keep(
    root: Path,
    seen: Look,
    built: Report,
    frames: Frames,
    sources: Sequence[Source],
    seconds: float,
) -> None:
    """Keep an analysis that took `seconds`, if that pays off; never raises."""
    if seconds < PAYS_SECONDS:
        return
    known: Mapping[str, str] = dict(
        frames["sources"].select("source", "sha256").iter_rows()
    )
    read = {str(s.path): known.get(s.name) for s in sources}
    hashes = {path: read.get(path) for path in seen.recent}
    if not all(hashes.values()):
        return
    is_unpacked = any(str(s.path) not in seen.files for s in sources)

    def fill(entry: Path) -> None:
        from ncclforensics.engine import frame_files

        rows = [
            {f: getattr(s, f) for f in s.__slots__} | {"path": str(s.path)}
            for s in sources
        ]
        answer = {
            "report": built,
            "seconds": seconds,
            "sources": None if is_unpacked else rows,
            "hashes": hashes,
            "frames": frame_files.save(frames, entry),
        }
        data = msgspec.json.encode(answer)
        sha256 = hashlib.sha256(data).hexdigest()
        (entry / INDEX).write_bytes(f"{sha256}\n".encode() + data)

    with suppress(ValueError):  # a path that is no text
        store.write(root, seen.key, fill)
