"""Packs the files of a store into parts, merges small parts, and prunes old records.

Each is one commit of a new generation (see `manifest`); a process that is killed, or
that another one overtakes, leaves files that nobody lists and that are removed later.
"""

from __future__ import annotations

import io
import secrets
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.history import columns, files, manifest, revisions
from ncclforensics.history.limits import ABANDONED_S, GRACE_S, MOST_PARTS, PACK_AT
from ncclforensics.history.manifest import LOG, NEW, PARTS, Manifest, Part
from ncclforensics.history.store import damage_told, read_new, scan, scans
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def pack(root: Path, *, at_least: int = PACK_AT, grace: float = GRACE_S) -> int:
    """Pack the new files if there are so many; returns how many records were packed.

    What is packed or replaced stays for `grace` seconds. Raises UsageError if the store
    cannot be written.
    """
    if len(files.names(root / NEW, ".json")) < at_least:
        return 0
    with damage_told(root, "packed"):
        number, now = manifest.newest(root)
        told, _ = read_new(root)
        rows = revisions.resolved(columns.frame(told), scans(root, now.parts))
        packed = rows.height if rows.height >= at_least else 0
        if packed:
            hours = columns.hours(revisions.counted(rows))
            parts = _merged(root, (*now.parts, write(root, rows, hours)))
            if not manifest.commit(root, number + 1, Manifest(parts)):
                return 0  # another process packed them
            now = Manifest(parts)
        _clean(root, now, grace)
    return packed


def prune(root: Path, before: int) -> int:
    """Remove what happened before a time, in UTC nanoseconds; returns how many records.

    Raises UsageError if the store cannot be written, or if others commit all the time.
    """
    with damage_told(root, "pruned"):
        for _ in range(MOST_PARTS):
            pack(root, at_least=1)
            number, now = manifest.newest(root)
            pruned = [_pruned(root, part, before) for part in now.parts]
            parts = tuple(part for part, _ in pruned if part is not None)
            if parts == now.parts:
                return 0
            _forget(root, before)
            if manifest.commit(root, number + 1, Manifest(parts)):
                _drop(root, number, Manifest(parts))
                return sum(gone for _, gone in pruned)
    raise UsageError(f"{root} is being written by others all the time: try again")


def write(root: Path, rows: pl.DataFrame, hours: pl.DataFrame) -> Part:
    """Write a part that nobody lists yet; raises OSError if it cannot be written."""
    names, sizes = [], []
    for frame in (rows, hours):
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", row_group_size=100_000)
        names.append(f"{secrets.token_hex(12)}.parquet")
        sizes.append(buffer.tell())
        files.put(root / PARTS / names[-1], buffer.getvalue())
    return Part(names[0], names[1], rows.height, (sizes[0], sizes[1]))


def _read(root: Path, part: Part) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows, hours = part.files
    return (
        scan(root / PARTS / rows, columns.SCHEMA).collect(),
        scan(root / PARTS / hours, columns.HOURS).collect(),
    )


def _merged(root: Path, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return few parts: where there are many, the small ones become one.

    Taken are those that together have at least half of the next larger one, so a row is
    written again only as often as the store doubles.
    """
    if len(parts) <= MOST_PARTS:
        return parts
    by_size = sorted(parts, key=lambda part: part.rows)
    taken, rows = 2, by_size[0].rows + by_size[1].rows
    while taken < len(by_size) and 2 * rows >= by_size[taken].rows:
        rows += by_size[taken].rows
        taken += 1
    small = by_size[:taken]
    told, hours = zip(*(_read(root, part) for part in small), strict=True)
    whole = write(
        root, pl.concat(told).sort("t", "row"), columns.summed(pl.concat(hours))
    )
    return (*(part for part in parts if part not in small), whole)


def _pruned(root: Path, part: Part, before: int) -> tuple[Part | None, int]:
    """Return a part without what was before, None if all was, and how many that are."""
    then = pl.lit(before).cast(columns.TIME)
    rows, hours = _read(root, part)
    kept = rows.filter((pl.col("t") >= then).fill_null(True))
    if kept.height == rows.height:
        return part, 0
    hours = hours.filter(
        (pl.col("week") >= then.dt.date().dt.truncate("1w")).fill_null(True)
    )
    left = write(root, kept, hours) if kept.height else None
    return left, rows.height - kept.height


def _forget(root: Path, before: int) -> None:
    """Remove the files of old records that are packed, but stay for a while."""
    for told in read_new(root)[0]:
        if told.t is not None and told.t < before:
            (root / NEW / f"{told.row}.json").unlink(missing_ok=True)


def _drop(root: Path, number: int, kept: Manifest) -> None:
    """Remove what generations up to `number` list, and these, at once."""
    mine = {file for part in kept.parts for file in part.files}
    for file in manifest.listed_files(root) - mine:
        (root / PARTS / file).unlink(missing_ok=True)
    for name in files.names(root / LOG, ".json"):
        if int(name) <= number:
            (root / LOG / f"{name}.json").unlink(missing_ok=True)


def _clean(root: Path, now: Manifest, grace: float) -> None:
    """Remove packed files, replaced parts, and drafts of processes that are gone."""
    clock = files.server_time(root / NEW)
    there = [int(name, 16) for name in files.names(root / NEW, ".json")]
    for part in now.parts:
        if manifest.written(root / PARTS / part.name) <= clock - grace:
            mine = scans(root, (part,))[0].filter(pl.col("row").is_in(there))
            for row in mine.select("row").collect()["row"]:
                (root / NEW / f"{row:016x}.json").unlink(missing_ok=True)
    manifest.clean(root, clock, grace, ABANDONED_S)
    for name in (NEW, PARTS, LOG):
        drafts = [draft.name for draft in (root / name).glob(f"{files.DRAFT}*")]
        files.remove_older(root / name, drafts, clock - ABANDONED_S)
