"""Reads frames that were exported: a folder of parquet, or the zip of a report.

The frames may lie beside report.json, if there is one, or in `frames/`, a file each:
`collectives.parquet`, `message.ID.parquet`. Calls stay in their file and are read from
there when needed.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics import tables
from ncclforensics.errors import UsageError
from ncclforensics.frames import Frames
from ncclforensics.parsers import captures
from ncclforensics.report.as_json import load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ncclforensics.report.contract import Report

CALLS, MESSAGE, MOST_BYTES = "collectives", "message.", 1 << 34


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export holds; `calls` are its collectives, lazily."""

    report: Report
    frames: Frames
    calls: pl.LazyFrame


def read(path: Path, scratch: Path) -> Exported | None:
    """Read an export, or return None where `path` is none.

    Raises UsageError on an export that cannot be read.
    """
    folder = _unpacked(path, scratch) if path.suffix == ".zip" else path
    if folder is None or not folder.is_dir():
        return None
    inner = folder / "frames" if (folder / "frames").is_dir() else folder
    files = {file.stem: file for file in sorted(inner.glob("*.parquet"))}
    report = load(folder / "report.json")
    known = files.keys() & tables.SCHEMAS.keys()
    if not known or (report is None and "sources" not in known):
        return None
    calls = tables.empty(CALLS).lazy()
    try:
        if CALLS in files:
            calls = pl.scan_parquet(files[CALLS])
            tables.conform(CALLS, calls.head(0).collect())
        frames = _frames(files, with_calls=report is None)
    except (pl.exceptions.PolarsError, ValueError, OSError) as caught:
        raise UsageError(
            f"{path} holds frames that cannot be read: {caught}"
        ) from caught
    if report is None:
        # diagnosers are heavy to import, and an export with its report needs none
        from ncclforensics.analysis import conclude

        report = conclude(frames)[1]
    return Exported(report, frames, calls)


def _frames(files: Mapping[str, Path], *, with_calls: bool) -> Frames:
    """Read the frames of an export, and the captures of its messages."""
    found: dict[str, pl.DataFrame] = {}
    messages: dict[str, pl.DataFrame] = {}
    for name, file in files.items():
        if name.startswith(MESSAGE):
            message = name.removeprefix(MESSAGE)
            messages[message] = captures.conform(message, pl.read_parquet(file))
        elif name in tables.SCHEMAS and (with_calls or name != CALLS):
            found[name] = tables.conform(name, pl.read_parquet(file))
    return Frames(found, messages)


def _unpacked(path: Path, scratch: Path) -> Path | None:
    """Unpack what belongs to an export, or return None where the zip is none."""
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
            if sum(member.file_size for member in members) > MOST_BYTES:
                raise UsageError(f"{path} is too large when unpacked")
            folder = scratch / "export"
            for member in members:
                # the name alone decides where it goes, whatever folders it claims
                place = folder / member.filename.rpartition("/")[2]
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, place.open("wb") as file:
                    shutil.copyfileobj(packed, file)
            return folder
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None
