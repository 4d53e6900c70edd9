"""Formats stacks: user frames first, then library frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.report.sanitize import line as clean

if TYPE_CHECKING:
    from collections.abc import Iterable

# path fragments of frames that are not user code
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen", "/torch/")
MOST = 40


def frames_of(stacks: pl.DataFrame, stack: int | None) -> list[str]:
    """Return the frames of a stack as `file:line function`, user frames first."""
    if stack is None:
        return []
    rows = stacks.filter(pl.col("stack") == stack).unique("depth").sort("depth")
    listed = list(rows.select("file", "file_line", "function").iter_rows())
    own = [frame for frame in listed if not _is_library(frame[0])]
    rest = [frame for frame in listed if _is_library(frame[0])]
    return list(_told([*own, *rest]))[:MOST]


def user_frame(stacks: pl.DataFrame, stack: int | None) -> str:
    """Return the innermost user frame of a stack, "" without frames."""
    found = frames_of(stacks, stack)
    return found[0] if found else ""


def _is_library(file: str | None) -> bool:
    return any(part in (file or "") for part in LIBRARIES)


def _told(frames: Iterable[tuple[str | None, int | None, str | None]]) -> Iterable[str]:
    for file, number, function in frames:
        yield clean(f"{file}:{number} {function or ''}".rstrip(), 200)
