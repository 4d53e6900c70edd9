"""The store: a folder to which many hosts add, one file for each kept analysis.

`new/` has what was kept lately, `parts/` the rest as parquet, and `log/` says which
parts count. A record goes one way, from `new/` into a part, and its file stays for a
while: so who reads `new/` first misses none, and knows by its `row` what is in both.
A folder of saved JSON reports is a store as well, to be read only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics.history import columns, files, manifest
from ncclforensics.history.manifest import LOG, NEW, PARTS, Manifest
from ncclforensics.history.record import Record, record
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRIES = 3  # readings, when parts were merged away during one


@dataclass(frozen=True, slots=True)
class Store:
    """A store as it is now: the parts, and `new`, the rows of no part.

    `unread` are files of it that are damaged. `replaces` is whether a row of `new`
    tells anew of an incident that a part has.
    """

    root: Path
    parts: Manifest
    new: pl.DataFrame
    unread: tuple[str, ...] = ()
    replaces: bool = False

    def rows(self, *names: str, where: pl.Expr | None = None) -> pl.DataFrame:
        """Return columns of all incidents for which `where` holds, each once.

        `where` is about the columns of `names` alone.
        """
        again = self.replaces or any(part.again for part in self.parts.parts)
        wanted = list(dict.fromkeys(names))
        read = [*wanted, *(n for n in ("id", "evidence", "kept") if n not in names)]
        chosen = read if again else wanted
        scans = [scan.select(chosen) for scan in self._scans("name")]
        found = pl.concat([*scans, self.new.lazy().select(chosen)])
        if where is not None and not again:
            found = found.filter(where)
        table = found.collect()
        if again:
            table = columns.latest(table)
            table = table if where is None else table.filter(where)
        return table.select(wanted)

    def hours(self) -> pl.DataFrame:
        """Return how long each host was in analyzed jobs, by day (`columns.HOURS`)."""
        scans = self._scans("hours")
        return pl.concat([*scans, columns.hours(self._counted()).lazy()]).collect()

    def _counted(self) -> pl.DataFrame:
        """Return the new rows that tell of incidents which no part has."""
        fresh = columns.latest(self.new)
        if not self.replaces:
            return fresh
        known = [scan.select("id", "evidence") for scan in self._scans("name")]
        return fresh_of(fresh, pl.concat(known).collect())

    def _scans(self, field: str) -> list[pl.LazyFrame]:
        at = self.root / PARTS
        names = [getattr(part, field) for part in self.parts.parts]
        return [pl.scan_parquet(at / name, glob=False) for name in names]


def fresh_of(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of incidents and files that are not in `known`."""
    for column in ("id", "evidence"):
        rows = rows.join(known, on=column, how="anti", maintain_order="left")
    return rows


def keep(root: Path, told: Record) -> Path:
    """Add a record; it is on disk when this returns. Returns its file.

    Raises UsageError if the store cannot be written.
    """
    path = root / NEW / f"{told.row}.json"
    try:
        for name in (NEW, PARTS, LOG):
            (root / name).mkdir(parents=True, exist_ok=True)
        files.put(path, msgspec.json.encode(told) + b"\n")
    except OSError as caught:
        raise UsageError(f"{root} cannot be written: {reason(caught)}") from caught
    return path


def is_one(root: Path) -> bool:
    """Whether a folder is a store that this tool wrote."""
    return (root / NEW).is_dir() and (root / LOG).is_dir()


def load(root: Path) -> Store:
    """Return a store, or a folder of saved reports, as it is now.

    Raises UsageError if it is neither.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is no folder")
    if not is_one(root):
        found = list(_reports(root))
        if not found:
            raise UsageError(f"{root} is no store, and there is no saved report in it")
        return Store(root, Manifest(), columns.latest(columns.frame(found)))
    for _ in range(TRIES):
        told, unread = read_new(root)
        _, parts = manifest.newest(root)
        whole = tuple(p for p in parts.parts if _is_whole(root, p))
        if len(whole) == len(parts.parts):
            break
        time.sleep(0.1)
    damaged = [p.name for p in parts.parts if p not in whole]
    return _loaded(root, Manifest(whole), told, (*unread, *damaged))


def _loaded(
    root: Path, parts: Manifest, told: Sequence[Record], unread: tuple[str, ...]
) -> Store:
    rows = columns.frame(told)
    empty = Store(root, parts, rows, unread)
    scans = [scan.select("row", "id", "evidence") for scan in empty._scans("name")]
    if not scans or rows.is_empty():
        return Store(root, parts, rows, unread, rows["id"].is_duplicated().any())
    known = pl.concat(scans).collect()
    rows = rows.join(known, on="row", how="anti", maintain_order="left")
    replaces = fresh_of(columns.latest(rows), known).height < rows.height
    return Store(root, parts, rows, unread, replaces)


def read_new(root: Path) -> tuple[list[Record], tuple[str, ...]]:
    """Return the records that have a file of their own, and files that are damaged."""
    told, unread = [], []
    for name in files.names(root / NEW, ".json"):
        try:
            data = (root / NEW / f"{name}.json").read_bytes()
            told.append(msgspec.json.decode(data, type=Record))
        except FileNotFoundError:
            continue  # packed meanwhile
        except (OSError, msgspec.DecodeError):
            unread.append(f"{name}.json")
    return told, tuple(unread)


def _is_whole(root: Path, part: manifest.Part) -> bool:
    """Whether both files of a part are there, with all their bytes."""
    try:
        found = [(root / PARTS / n).stat().st_size for n in (part.name, part.hours)]
    except OSError:
        return False
    return tuple(found) == part.sizes


def _reports(root: Path) -> Iterator[Record]:
    """Yield a record of each saved report in a folder and below."""
    from ncclforensics.report.formats.as_json import load as load_report

    for path in sorted(root.rglob("*.json")):
        try:
            report = load_report(path)
            kept = path.stat().st_mtime_ns
        except (UsageError, OSError):
            continue
        if report is not None:
            yield record(report, kept, {}, path=str(path))
