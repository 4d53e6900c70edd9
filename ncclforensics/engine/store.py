"""The folder of the cache: entries by key, written whole, bounded, and erased.

An entry is a folder. It is filled under another name and then renamed, so that a reader
sees all of it or nothing, and of two writers one wins. The least recently used entries
are evicted first. What is read from an entry has to be verified by its reader.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics import __version__
from ncclforensics.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

# of all entries together; the least recently used are evicted first
MOST_BYTES = 2 * 1024**3
MOST_ENTRIES = 200
OTHERS_WRITE = 0o022


def entry(root: Path, key: str) -> Path | None:
    """Return the folder of an entry, None if it is not there.

    None as well if others own the cache or may write to it: their answers are not ours.
    """
    try:
        told = root.stat()
    except OSError:
        return None
    if hasattr(os, "geteuid") and (
        told.st_uid != os.geteuid() or told.st_mode & OTHERS_WRITE
    ):
        return None
    found = root / key
    return found if found.is_dir() else None


def used(found: Path) -> None:
    """Note that an entry was used now, so that others are evicted before it."""
    with suppress(OSError):
        os.utime(found)


def write(root: Path, key: str, fill: Callable[[Path], None]) -> None:
    """Let `fill` write an entry into an empty folder; replaces one with the same key.

    Never raises what a full or read-only disk, or a writer beside this one, causes.
    """
    with suppress(OSError, UsageError):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".part-", dir=root))
        try:
            fill(draft)
            made = root / key
            if made.exists():
                made.rename(draft / "replaced")
            draft.rename(made)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(made / "replaced", ignore_errors=True)
        _evict(root)


def clear(root: Path) -> tuple[int, int]:
    """Erase all entries; returns how many there were, and their bytes."""
    entries = _entries(root)
    size = sum(_size(found) for found in entries)
    for found in entries:
        shutil.rmtree(found, ignore_errors=True)
    return len(entries), size


def _evict(root: Path) -> None:
    left = MOST_BYTES
    aged = sorted(_entries(root), key=lambda path: path.stat().st_mtime, reverse=True)
    for number, found in enumerate(aged):
        left -= _size(found)
        if left < 0 or number >= MOST_ENTRIES:
            shutil.rmtree(found, ignore_errors=True)


def _entries(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if path.is_dir()]
    except OSError:
        return []


def _size(found: Path) -> int:
    return sum(file.stat().st_size for file in found.rglob("*") if file.is_file())


@cache
def code() -> str:
    """Return a hash of what an answer depends on beside its evidence: all code."""
    package = Path(__file__).parents[1]
    # the grammars lie in the package where it is installed, beside it in a checkout
    grammars = [f for at in (package, package.parent) for f in at.glob("grammars/*")]
    key = hashlib.sha256(f"{__version__} {platform.python_version()} ".encode())
    key.update(metadata.version("polars").encode())
    for file in sorted([*package.rglob("*.py"), *grammars]):
        key.update(file.read_bytes())
    return key.hexdigest()
