"""Which parts the store has: a log of generations, of which the newest counts.

`log/00000007.json` lists the parts of generation 7. Whoever packs, merges or prunes
reads generation n, writes new parts, and commits n+1 by a file that only one can make.
Who comes second has changed nothing. So parts never overlap, and a reader never sees
half of a change. (The commit by put-if-absent is that of Delta Lake: Armbrust et al.,
VLDB 2020.)
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from ncclforensics.history import files

if TYPE_CHECKING:
    from pathlib import Path

LOG, PARTS, NEW = "log", "parts", "new"


class Part(msgspec.Struct, frozen=True):
    """A parquet file of so many records and one of hours, with their sizes in bytes."""

    name: str
    hours: str
    rows: int
    sizes: tuple[int, int]

    @property
    def files(self) -> tuple[str, str]:
        """The names of both files."""
        return self.name, self.hours


class Manifest(msgspec.Struct, frozen=True):
    """The parts of one generation."""

    parts: tuple[Part, ...] = ()


def newest(root: Path) -> tuple[int, Manifest]:
    """Return the newest generation and its number; 0 for a store without any.

    A damaged one is passed over; nothing is packed then, as the next number is taken.
    """
    for name in reversed(files.names(root / LOG, ".json")):
        try:
            data = (root / LOG / f"{name}.json").read_bytes()
            return int(name), msgspec.json.decode(data, type=Manifest)
        except (OSError, ValueError, msgspec.DecodeError):
            continue
    return 0, Manifest()


def commit(root: Path, number: int, manifest: Manifest) -> bool:
    """Make a generation; returns False if another process made this one first."""
    path = root / LOG / f"{number:08}.json"
    return files.put_new(path, msgspec.json.encode(manifest))


def clean(root: Path, now: float, grace: float, long: float) -> None:
    """Remove generations that were replaced `grace` seconds ago, and their parts.

    A part that no generation lists may be one that is about to be committed: it stays
    `long`. `now` is the time of the server.
    """
    log = files.names(root / LOG, ".json")
    old = [
        f"{name}.json"
        for name, after in pairwise(log)
        if written(root / LOG / f"{after}.json") < now - grace
    ]
    files.remove_older(root / LOG, old, now)
    listed = listed_files(root)
    there = [f"{name}.parquet" for name in files.names(root / PARTS, ".parquet")]
    files.remove_older(root / PARTS, [f for f in there if f not in listed], now - long)


def listed_files(root: Path) -> set[str]:
    """Return the files of all parts that any generation in the log lists."""
    listed: set[str] = set()
    for name in files.names(root / LOG, ".json"):
        with suppress(OSError, msgspec.DecodeError):
            data = (root / LOG / f"{name}.json").read_bytes()
            told = msgspec.json.decode(data, type=Manifest)
            listed.update(file for part in told.parts for file in part.files)
    return listed


def written(path: Path) -> float:
    """Return the mtime of a file, in seconds; infinity if it is not there any more."""
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")
