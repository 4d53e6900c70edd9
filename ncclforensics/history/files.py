"""Files on a file system that many hosts share, where locks cannot be relied on.

A file is written under a name of its own, synced, and renamed: readers see all of it or
nothing, and a writer that dies leaves only a draft. Of several writers of one name,
`put_new` lets one win: a hard link is made or refused by the server in one step, also
over NFS, where a lost reply is told by the count of links (open(2), under O_EXCL).
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DRAFT = ".draft-"


def put(path: Path, data: bytes) -> None:
    """Write a file that is whole or not there; on disk when this returns.

    Raises OSError if it cannot be written.
    """
    draft = drafted(path, data)
    try:
        try:
            draft.replace(path)
        except FileNotFoundError:
            if not path.exists():  # else a reply was lost, and the call made again
                raise
        _sync(path.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def put_new(path: Path, data: bytes) -> bool:
    """Write a file unless there is one; returns whether it is ours.

    Raises OSError if it cannot be written, also where there are no hard links.
    """
    draft = drafted(path, data)
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            if draft.stat().st_nlink != 2:
                return False
        _sync(path.parent)
        return True
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def drafted(path: Path, data: bytes) -> Path:
    """Write and sync a file of its own beside `path`; returns where it is."""
    draft = path.with_name(f"{DRAFT}{os.getpid()}-{secrets.token_hex(8)}")
    with draft.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return draft


def names(folder: Path, suffix: str) -> list[str]:
    """Return the names of whole files, without the suffix, sorted."""
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(
        name.removesuffix(suffix)
        for name in found
        if name.endswith(suffix) and not name.startswith(".")
    )


def server_time(folder: Path) -> float:
    """Return the time of the clock that gives files their mtime, in seconds."""
    draft = drafted(folder / "clock", b"")
    try:
        return draft.stat().st_mtime
    finally:
        draft.unlink(missing_ok=True)


def remove_older(folder: Path, names: list[str], before: float) -> None:
    """Remove files that nobody wrote since `before`; what cannot be removed stays."""
    for name in names:
        with suppress(OSError):
            if (folder / name).stat().st_mtime < before:
                (folder / name).unlink()


def _sync(folder: Path) -> None:
    """Sync a folder, so that a new name in it outlives a crash of the machine."""
    with suppress(OSError):  # some file systems sync no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
