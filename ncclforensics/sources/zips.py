"""Zip archives; without a central directory, members are read by local headers."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING, BinaryIO

from ncclforensics.sources import limits
from ncclforensics.sources.salvage import members_before_cut
from ncclforensics.sources.scratch import EndlessError

if TYPE_CHECKING:
    from ncclforensics.sources.archive_members import Contents

# zip is also the container of other formats, whose members are not evidence
NOT_EVIDENCE = (
    ("/data.pkl", "a torch checkpoint"),
    ("META-INF/MANIFEST.MF", "a Java archive"),
    (".dist-info/WHEEL", "a Python wheel"),
    ("[Content_Types].xml", "an office document"),
    ("AndroidManifest.xml", "an Android package"),
)


def take_zip(packed: BinaryIO, contents: Contents) -> None:
    """Store the regular members of the zip archive `packed`; note the others."""
    try:
        archive = zipfile.ZipFile(packed)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        contents.note(f"zip archive is cut or damaged: {error}")
        _take_cut(packed, contents)
        return
    with archive:
        infos = archive.infolist()
        for mark, what in NOT_EVIDENCE:
            if any(info.filename.endswith(mark) for info in infos):
                contents.why_not = f"zip archive: {what}"
                return
        for count, info in enumerate(infos):
            if count >= limits.MAX_MEMBERS:
                raise EndlessError(f"more than {limits.MAX_MEMBERS} members")
            if info.is_dir() or _is_refused(info, contents):
                continue
            try:
                with archive.open(info) as data:
                    contents.store(info.filename, data.read, info.compress_size)
            except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
                contents.note(f"cannot be unpacked: {error}", info.filename)


def _take_cut(packed: BinaryIO, contents: Contents) -> None:
    for name, read, packed_bytes in members_before_cut(packed):
        if contents.accepts(name):
            contents.store(name, read, packed_bytes)
        else:
            while read(limits.COPY_BYTES):  # skip to the next header
                pass


def _is_refused(info: zipfile.ZipInfo, contents: Contents) -> bool:
    if not contents.accepts(info.filename):
        return True
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 1:
        contents.note("refused: it is encrypted", info.filename)
    elif kind == stat.S_IFLNK:
        contents.note("refused: it is a link", info.filename)
    elif kind not in (0, stat.S_IFREG):
        contents.note("refused: it is a device or pipe", info.filename)
    else:
        return False
    return True
