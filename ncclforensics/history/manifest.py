"""Which parts the store has: a log of generations, of which the newest counts.

`log/00000007.json` lists the parts of generation 7. Whoever packs, merges or prunes
reads generation n, writes new parts, and commits n+1 by a file that only one can make.
Who comes second has changed nothing. So parts never overlap, and a reader never sees
half of a change. (The commit by put-if-absent is that of Delta Lake: Armbrust et al.,
VLDB 2020.)
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ncclforensics.history import files

LOG, PARTS, NEW = "log", "parts", "new"


class Part(msgspec.Struct, frozen=True):
    """A parquet file of records and one of hours, with their sizes in bytes.

    Of the `rows`, `again` tell anew of an incident that was already there.
    """

    name: str
    hours: str
    rows: int
    again: int
    sizes: tuple[int, int]


class Manifest(msgspec.Struct, frozen=True):
    """The parts of one generation."""

    parts: tuple[Part, ...] = ()


def newest(root: Path) -> tuple[int, Manifest]:
    """Return the newest generation and its number; 0 for a store without any.

    A damaged one counts as not there: what it listed is in the one before.
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


def clean(root: Path, kept: Manifest, now: float, grace: float, long: float) -> None:
    """Remove what no generation of the last `grace` seconds lists.

    A part that no generation lists may be one that is about to be committed: it stays
    `long`. To be called by who has just committed `kept`, at `now` of the server.
    """
    log = files.names(root / LOG, ".json")
    files.remove_older(root / LOG, [f"{n}.json" for n in log[:-1]], now - grace)
    listed = set(_files(kept))
    for name in files.names(root / LOG, ".json"):
        try:
            data = (root / LOG / f"{name}.json").read_bytes()
            listed.update(_files(msgspec.json.decode(data, type=Manifest)))
        except (OSError, msgspec.DecodeError):
            continue
    there = [f"{name}.parquet" for name in files.names(root / PARTS, ".parquet")]
    files.remove_older(
        root / PARTS, [f for f in there if f not in listed], now - long
    )


def _files(manifest: Manifest) -> list[str]:
    return [name for part in manifest.parts for name in (part.name, part.hours)]
