"""All frames of one analysis as files of a folder that only this tool writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ncclforensics.model.frames import Frames
from ncclforensics.sources.compression import digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MESSAGE = "message."


def save(frames: Frames, folder: Path) -> dict[str, str]:
    """Write each frame to a file; returns their SHA-256 by name.

    Raises OSError if the folder cannot be written.
    """
    named = {
        **frames.tables,
        **{MESSAGE + i: frame for i, frame in frames.messages.items()},
    }
    hashes = {}
    for name, frame in named.items():
        file = _file(folder, name)
        try:
            frame.write_parquet(file)
        except PolarsError as error:
            raise OSError(str(error)) from error
        hashes[name] = digest(file)
    return hashes


def load(folder: Path, hashes: Mapping[str, str]) -> Frames | None:
    """Read the frames of `save`; None if a file was changed or damaged.

    polars aborts the process on some damaged files, so they are hashed first.
    """
    named = {}
    for name, sha256 in hashes.items():
        file = _file(folder, name)
        try:
            if digest(file) != sha256:
                return None
            named[name] = pl.read_parquet(file, glob=False)
        except (OSError, PolarsError, PanicException):
            return None
    told = {n: f for n, f in named.items() if not n.startswith(MESSAGE)}
    return Frames(
        told, {n.removeprefix(MESSAGE): f for n, f in named.items() if n not in told}
    )


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.parquet"
