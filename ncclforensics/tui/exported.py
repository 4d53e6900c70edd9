"""Reads exported frames: a folder of parquet files, or the zip of a report.

The frames are in the folder itself, beside an optional report.json, or in `frames/`,
one file each: `collectives.parquet`, `message.ID.parquet`. There may be many calls, so
the process that validates them writes a copy, which is scanned on demand.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.engine import untrusted
from ncclforensics.model import tables
from ncclforensics.model.errors import UsageError
from ncclforensics.model.frames import Frames
from ncclforensics.report.formats.as_json import load
from ncclforensics.sources.compression import ERRORS
from ncclforensics.sources.limits import MAX_UNPACKED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncclforensics.report.contract import Report

CALLS = "collectives"


@dataclass(frozen=True, slots=True)
class Exported:
    """The content of an export; `calls` are its collectives, as a LazyFrame."""

    report: Report
    frames: Frames
    calls: pl.LazyFrame


def read(path: Path, scratch: Path) -> Exported | None:
    """Read an export; returns None if `path` is not one.

    Raises UsageError on an export that cannot be read.
    """
    folder = _unpacked(path, scratch) if path.suffix == ".zip" else path
    if folder is None or not folder.is_dir():
        return None
    inner = folder / "frames" if (folder / "frames").is_dir() else folder
    files = {
        file.stem: file
        for file in sorted(inner.glob("*.parquet"))
        if file.is_file() and untrusted.is_known(file.stem)
    }
    report = load(folder / "report.json")
    if files.keys().isdisjoint(tables.SCHEMAS):
        return None
    if report is None and "sources" not in files:
        return None
    copy = scratch / f"{CALLS}.parquet"
    (frames,) = untrusted.apart(_frames, [(files, copy)])
    if isinstance(frames, Exception):
        told = untrusted.why(frames)
        raise UsageError(f"{path} holds frames that cannot be read: {told}") from frames
    calls = pl.scan_parquet(copy, glob=False)
    if report is None:
        # importing diagnosers is slow, and an export with a report does not need them
        from ncclforensics.analysis import conclude

        with_calls = {**frames.tables, CALLS: calls.collect()}
        frames = Frames(with_calls, frames.messages)
        report = conclude(frames)[1]
    return Exported(report, frames, calls)


def _frames(at: tuple[Mapping[str, Path], Path]) -> Frames:
    """Read the frames of an export, except for its calls, which are copied."""
    files, copy = at
    calls = tables.empty(CALLS).lazy()
    with untrusted.unpanicked():
        if CALLS in files:
            told = pl.scan_parquet(files[CALLS], glob=False)
            tables.conform(CALLS, told.head(0).collect())
            own = set(told.collect_schema())
            calls = told.with_columns(
                pl.col(c).cast(kind) if c in own else pl.lit(None, kind).alias(c)
                for c, kind in tables.SCHEMAS[CALLS].items()
            ).select(*tables.SCHEMAS[CALLS])
        calls.sink_parquet(copy)
        untrusted.check(pl.scan_parquet(copy, glob=False).select("rank").collect())
    return untrusted.conformed(
        {n: untrusted.parquet(file) for n, file in files.items() if n != CALLS}
    )


def _unpacked(path: Path, scratch: Path) -> Path | None:
    """Unpack the files of an export; returns None if the zip is not one."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                member
                for member in archive.infolist()
                if member.filename == "report.json"
                or (
                    member.filename.endswith(".parquet")
                    and member.filename.count("/") <= 1
                )
            ]
            names = {member.filename for member in members}
            if "report.json" not in names or len(names) < 2:
                return None
            if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
                raise UsageError(f"{path} is too large when unpacked")
            folder = scratch / "export"
            for member in members:
                # only the base name is used, so no member can leave the folder
                place = folder / member.filename.rpartition("/")[2]
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, place.open("wb") as file:
                    shutil.copyfileobj(packed, file)
            return folder
    except (*ERRORS, EOFError, zipfile.BadZipFile, RuntimeError):
        return None
