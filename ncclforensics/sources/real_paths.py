"""Resolves the paths and patterns that a user typed."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.model.errors import UsageError
from ncclforensics.sources.names import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.sources.model import Source


def roots(paths: Sequence[str]) -> list[str]:
    """Return the distinct real paths of `paths`, with patterns expanded, sorted.

    A path inside another given one is left out. Raises UsageError for a path or pattern
    that matches nothing. `-` must not be among them.
    """
    expanded: set[str] = set()
    for path in paths:
        try:
            os.lstat(path)
            matches = [path]
        except (OSError, ValueError) as error:
            matches = _expand(path)
            if not matches:
                reason = getattr(error, "strerror", None) or "not a path"
                raise UsageError(f"{printable(path)}: {reason}") from None
        expanded.update(map(os.path.realpath, matches))
    return [
        path
        for path in sorted(expanded)
        if not any(str(parent) in expanded for parent in Path(path).parents)
    ]


def typed(paths: Sequence[str], source: Source) -> str:
    """Return a path to a source that begins as one of `paths`, if there is one.

    A member of an archive has no path, and keeps its name.
    """
    if "!" in source.name:
        return source.name
    for path in paths:
        for candidate in (path, os.path.join(path, source.name)):
            if os.path.realpath(candidate) == str(source.path):
                return candidate
    return str(source.path)


def _expand(pattern: str) -> list[str]:
    if not glob.has_magic(pattern):
        return []
    try:
        return glob.glob(pattern, recursive=True, include_hidden=True)
    except (OSError, ValueError):
        return []
