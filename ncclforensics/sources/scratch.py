"""Scratch space for unpacked bytes: numbered files, with one quota for all archives.

A member's name never becomes a path, so nothing can be written outside the directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.sources import limits

if TYPE_CHECKING:
    from collections.abc import Callable


class EndlessError(Exception):
    """The quota is used up; nothing more may be unpacked."""


class Scratch:
    """Numbered files in a new directory below `parent`, created on first use."""

    def __init__(self, parent: Path, quota: int | None = None) -> None:
        """Start with the full quota in bytes, by default that of limits.py."""
        self._parent = parent
        self._folder: Path | None = None
        self._files = 0
        self._bytes_left = limits.MAX_UNPACKED_BYTES if quota is None else quota

    def keep(
        self, read: Callable[[int], bytes], packed_bytes: int, modified: float = 0
    ) -> Stored:
        """Copy what `read(size)` returns into a new file, as far as it is readable.

        `packed_bytes` is its size in the archive, to detect a bomb by its ratio.
        `modified` becomes the file's mtime: seconds since 1970, 0 if unknown. The file
        is kept even if reading or writing ends early; `Stored.damage` says why. Raises
        EndlessError if the quota of files is used up.
        """
        if self._files >= limits.MAX_MEMBERS:
            raise EndlessError(f"more than {limits.MAX_MEMBERS} members")
        if self._folder is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix="unpacked-", dir=self._parent))
        self._files += 1
        stored = Stored(self._folder / f"{self._files:06d}")
        most = max(limits.RATIO_FREE_BYTES, limits.MAX_RATIO * packed_bytes)
        with stored.path.open("xb") as target:
            try:
                while chunk := read(limits.COPY_BYTES):
                    allowed = min(self._bytes_left, most - stored.bytes)
                    target.write(chunk[:allowed])
                    written = min(len(chunk), allowed)
                    stored.bytes += written
                    self._bytes_left -= written
                    if len(chunk) > allowed:
                        stored.is_endless = True
                        stored.damage = "it unpacks without end"
                        break
            except Exception as error:  # on damage, decoders may raise any exception
                stored.damage = str(error) or type(error).__name__
        _stamp(stored.path, modified)
        return stored

    def remove(self) -> None:
        """Remove what is stored here."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _stamp(path: Path, modified: float) -> None:
    try:
        os.utime(path, (modified, modified))
    except (OverflowError, ValueError, OSError):  # a header may hold any time
        os.utime(path, (0, 0))


class Stored:
    """A stored file: path, size in bytes, and why it is incomplete (None if not)."""

    __slots__ = ("bytes", "damage", "is_endless", "path")

    def __init__(self, path: Path) -> None:
        """Describe the file at `path`, which is still empty."""
        self.path = path
        self.bytes = 0
        self.damage: str | None = None
        self.is_endless = False
