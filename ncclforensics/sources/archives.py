"""Unpacks tar and zip archives into scratch space, member by member.

Archives are recognised by content. Members with unsafe paths (absolute, `..`), links,
devices and encrypted members are refused. A truncated archive yields everything before
the cut. Unpacking of an endless archive stops when the quota of scratch.py is used up.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from ncclforensics.sources.archive_members import Contents
from ncclforensics.sources.compression import open_file
from ncclforensics.sources.scratch import EndlessError, Scratch
from ncclforensics.sources.tars import take_tar
from ncclforensics.sources.zips import take_zip

if TYPE_CHECKING:
    from pathlib import Path


def format_of(head: bytes) -> str | None:
    """Return "tar" or "zip" given a file's first bytes (decompressed), else None."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    block = head[: tarfile.BLOCKSIZE]
    if len(block) < tarfile.BLOCKSIZE or not block[0]:
        return None
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return None
    return "tar"


def unpack(form: str, path: Path, compression: str | None, to: Scratch) -> Contents:
    """Unpack the archive at `path` into `to`; never raises on its content."""
    contents = Contents(to)
    take = take_zip if form == "zip" else take_tar
    try:
        with open_file(path, compression) as packed:
            take(packed, contents)
            if packed.damage:
                contents.note(f"{form} archive: {packed.damage}")
    except EndlessError as error:
        contents.note(f"the archive unpacks without end: {error}")
    except Exception as error:  # on damage, both modules may raise any exception
        reason = str(error) or type(error).__name__
        contents.note(f"{form} archive is cut or damaged: {reason}")
    return contents
