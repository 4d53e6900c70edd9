"""Packs the files of a store into parts, merges small parts, and prunes old records.

Each is one commit of a new generation (see `manifest`); a process that is killed, or
that another one overtakes, leaves files that nobody lists and that are removed later.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.history import columns, files, manifest
from ncclforensics.history.limits import ABANDONED_S, GRACE_S, MOST_PARTS, PACK_AT
from ncclforensics.history.manifest import LOG, NEW, PARTS, Manifest, Part
from ncclforensics.history.store import fresh_of, read_new
from ncclforensics.model.errors import UsageError, reason

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Packed:
    """How many rows a commit added, or took away."""

    added: int = 0
    pruned: int = 0


def pack(root: Path, *, at_least: int = PACK_AT, grace: float = GRACE_S) -> Packed:
    """Pack the new files if there are so many; returns what was committed.

    `grace` is how many seconds what is packed or replaced stays. Raises UsageError if
    the store cannot be written.
    """
    try:
        if len(files.names(root / NEW, ".json")) < at_least:
            return Packed()
        number, now = manifest.newest(root)
        told, _ = read_new(root)
        known = _column(root, now, "row", "id", "evidence")
        rows = columns.frame(told)
        rows = rows.join(known, on="row", how="anti", maintain_order="left")
        added = rows.height
        if added >= at_least:
            parts = _merged(root, (*now.parts, _part(root, rows, known)))
            if not manifest.commit(root, number + 1, Manifest(parts)):
                return Packed()  # another one packed them
            now = Manifest(parts)
            _clean(root, now, grace)
        _remove_packed(root, now, grace)
    except OSError as caught:
        raise UsageError(f"{root} cannot be packed: {reason(caught)}") from caught
    return Packed(added if added >= at_least else 0)


def prune(root: Path, before: int) -> Packed:
    """Remove what happened before a time, in UTC nanoseconds; it is not to be undone.

    Raises UsageError if the store cannot be written, or if others write to it faster
    than this can commit.
    """
    old = pl.col("t") < pl.lit(before).cast(columns.TIME)
    day = pl.lit(before).cast(columns.TIME).dt.date()
    try:
        for _ in range(MOST_PARTS):
            pack(root, at_least=1)
            number, now = manifest.newest(root)
            parts, gone = [], 0
            for part in now.parts:
                rows = pl.read_parquet(root / PARTS / part.name, glob=False)
                kept = rows.filter(~old.fill_null(False))
                gone += rows.height - kept.height
                hours = pl.read_parquet(root / PARTS / part.hours, glob=False)
                hours = hours.filter(pl.col("day").is_null() | (pl.col("day") >= day))
                if kept.height == rows.height:
                    parts.append(part)
                elif kept.height:
                    parts.append(_write(root, kept, hours, part.again))
            if not gone:
                return Packed()
            if manifest.commit(root, number + 1, Manifest(tuple(parts))):
                # at once, without grace: it is asked for to be gone
                _forget(root, before)
                manifest.clean(root, Manifest(tuple(parts)), float("inf"), 0, 0)
                return Packed(pruned=gone)
    except OSError as caught:
        raise UsageError(f"{root} cannot be pruned: {reason(caught)}") from caught
    raise UsageError(f"{root} is being written by others all the time: try again")


def _forget(root: Path, before: int) -> None:
    """Remove the files of old records that were packed but stayed for a while."""
    for told in read_new(root)[0]:
        if told.t is not None and told.t < before:
            (root / NEW / f"{told.row}.json").unlink(missing_ok=True)


def _part(root: Path, rows: pl.DataFrame, known: pl.DataFrame) -> Part:
    """Write a part of new rows; the hours are of incidents that are not `known`."""
    fresh = fresh_of(columns.latest(rows), known)
    return _write(root, rows, columns.hours(fresh), rows.height - fresh.height)


def _merged(root: Path, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return few parts: where there are many, the small ones become one.

    Each merge takes parts that together have at least half of the next larger one, so
    a row is written again only as often as the store doubles.
    """
    if len(parts) <= MOST_PARTS:
        return parts
    by_size = sorted(parts, key=lambda part: part.rows)
    taken, rows = 1, by_size[0].rows
    while taken < len(by_size) and (taken < 2 or 2 * rows >= by_size[taken].rows):
        rows += by_size[taken].rows
        taken += 1
    small = [part for part in parts if part in by_size[:taken]]
    at = root / PARTS
    told = pl.concat([pl.read_parquet(at / p.name, glob=False) for p in small])
    hours = pl.concat([pl.read_parquet(at / p.hours, glob=False) for p in small])
    summed = hours.group_by("day", "host").agg(
        pl.sum("analyses"), pl.sum("hours"), pl.max("gpus")
    )
    whole = _write(
        *(root, told.sort("t", "row"), summed.select(columns.HOURS).sort("day", "host")),
        sum(part.again for part in small),
    )
    return (*(part for part in parts if part not in small), whole)


def _write(root: Path, rows: pl.DataFrame, hours: pl.DataFrame, again: int) -> Part:
    """Write both files of a part under the hash of what they hold."""
    named = []
    for frame in (rows, hours):
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", row_group_size=50_000)
        data = buffer.getvalue()
        name = f"{hashlib.sha256(data).hexdigest()[:24]}.parquet"
        files.put(root / PARTS / name, data)
        named.append((name, len(data)))
    (name, size), (other, more) = named
    return Part(name, other, rows.height, again, (size, more))


def _column(root: Path, of: Manifest, *names: str) -> pl.DataFrame:
    at = root / PARTS
    schema = {name: columns.SCHEMA[name] for name in names}
    read = [pl.read_parquet(at / p.name, columns=list(names), glob=False) for p in of.parts]
    return pl.concat([pl.DataFrame(schema=schema), *read])


def _clean(root: Path, now: Manifest, grace: float) -> None:
    """Remove what nobody lists any more, and drafts of processes that are gone."""
    clock = files.server_time(root / NEW)
    manifest.clean(root, now, clock, grace, max(grace, ABANDONED_S) if grace else 0)
    for name in (NEW, PARTS, LOG):
        drafts = [d.name for d in (root / name).glob(f"{files.DRAFT}*")]
        files.remove_older(root / name, drafts, clock - ABANDONED_S)


def _remove_packed(root: Path, now: Manifest, grace: float) -> None:
    """Remove new files that are in a part which is older than `grace` seconds."""
    clock = files.server_time(root / NEW)
    there = files.names(root / NEW, ".json")
    for part in now.parts:
        if (root / PARTS / part.name).stat().st_mtime > clock - grace:
            continue
        rows = _column(root, Manifest((part,)), "row")["row"]
        mine = rows.filter(rows.is_in([int(name, 16) for name in there]))
        for row in mine:
            (root / NEW / f"{row:016x}.json").unlink(missing_ok=True)
