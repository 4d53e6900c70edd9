"""The store: a folder to which many hosts add, one file for each kept analysis.

`new/` has what was kept lately, `parts/` the rest as parquet, and `log/` says which
parts count. A record goes one way, from `new/` into a part, and its file stays for a
while: so who reads `new/` first misses none, and knows by its `row` what is in both.
A folder of saved JSON reports is a store as well, to be read only.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import polars as pl
from polars.exceptions import PanicException, PolarsError

from ncclforensics.history import columns, files, manifest, revisions
from ncclforensics.history.manifest import LOG, NEW, PARTS, Part
from ncclforensics.history.record import Record, record
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

OURS = frozenset((NEW, PARTS, LOG, "key"))
TRIES = 3  # readings, when parts were merged away during one


@dataclass(frozen=True, slots=True)
class Store:
    """A store as it is now: the parts, and `new`, the rows that are in none.

    `replaced` are rows that are not the last word. `unread` are damaged files.
    """

    root: Path
    parts: tuple[Part, ...]
    new: pl.DataFrame
    replaced: pl.Series
    unread: tuple[str, ...] = ()

    def rows(self, *names: str, where: pl.Expr | None = None) -> pl.DataFrame:
        """Return columns of all incidents, each once, for which `where` holds."""
        whole = pl.concat([*scans(self.root, self.parts), self.new.lazy()])
        found = revisions.live(whole, self.replaced)
        return (found if where is None else found.filter(where)).select(names).collect()

    def hours(self) -> pl.DataFrame:
        """Return how long each host was in analyzed jobs, by week (`columns.HOURS`)."""
        at = self.root / PARTS
        read = [scan(at / part.hours, columns.HOURS) for part in self.parts]
        new = columns.hours(revisions.counted(self.new))
        return pl.concat([*read, new.lazy()]).collect()


def scans(root: Path, parts: Sequence[Part]) -> list[pl.LazyFrame]:
    """Return the records of each part, not read yet."""
    return [scan(root / PARTS / part.name, columns.SCHEMA) for part in parts]


def scan(path: Path, schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a file as `schema` has it, not read yet; of another release as well."""
    told = pl.scan_parquet(path, glob=False)
    there = told.collect_schema()
    return told.select(
        pl.col(name)
        if there.get(name) == dtype
        else (pl.col(name) if name in there else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in schema.items()
    )


@contextmanager
def damage_told(root: Path, done: str = "read") -> Iterator[None]:
    """Raise UsageError for what a file system or a damaged part causes."""
    try:
        yield
    except (OSError, PolarsError, PanicException) as caught:
        why = reason(caught) if isinstance(caught, OSError) else str(caught)
        raise UsageError(f"{root} cannot be {done}: {why}") from caught


def keep(root: Path, told: Record) -> Path:
    """Add a record; it is on disk when this returns. Returns its file.

    Raises UsageError if the store cannot be written.
    """
    path = root / NEW / f"{told.row}.json"
    if not (is_one(root) or is_empty(root)):
        raise UsageError(f"{root} is no store, and there are other files in it")
    try:
        for name in (NEW, PARTS, LOG):
            (root / name).mkdir(parents=True, exist_ok=True)
        files.put(path, msgspec.json.encode(told) + b"\n")
    except OSError as caught:
        raise UsageError(f"{root} cannot be written: {reason(caught)}") from caught
    return path


def is_empty(root: Path) -> bool:
    """Whether a store can begin in a folder: it is not there, or nothing else is."""
    try:
        return {path.name for path in root.iterdir()} <= OURS
    except OSError:
        return not root.exists()


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
        told = list(_reports(root))
        if not told:
            raise UsageError(f"{root} is no store, and there is no saved report in it")
        return _opened(root, (), told, ())
    for _ in range(TRIES):
        told, unread = read_new(root)
        _, now = manifest.newest(root)
        whole = tuple(part for part in now.parts if _is_whole(root, part))
        if len(whole) == len(now.parts):
            break
        time.sleep(0.1)
    damaged = (part.name for part in now.parts if part not in whole)
    return _opened(root, whole, told, (*unread, *damaged))


def _opened(
    root: Path,
    parts: tuple[Part, ...],
    told: Sequence[Record],
    unread: tuple[str, ...],
) -> Store:
    packed = scans(root, parts)
    new = revisions.resolved(columns.frame(told), packed)
    lists = pl.concat([*packed, new.lazy()]).select("replaces")
    replaced = lists.explode("replaces").drop_nulls().unique().collect()["replaces"]
    return Store(root, parts, new, replaced, unread)


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


def _is_whole(root: Path, part: Part) -> bool:
    """Whether both files of a part are there, with all their bytes."""
    try:
        found = [(root / PARTS / name).stat().st_size for name in part.files]
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
