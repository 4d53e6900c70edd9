"""Tar archives, read as a stream, so that a compressed one needs no temporary copy."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, BinaryIO, Self

from ncclforensics.sources import limits
from ncclforensics.sources.scratch import EndlessError

if TYPE_CHECKING:
    from ncclforensics.sources.archive_members import Contents

# headers whose payload tarfile reads into memory: pax records and GNU long names
EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def take_tar(packed: BinaryIO, contents: Contents) -> None:
    """Store the regular members of the tar stream `packed`; note the others.

    tarfile stops silently at an unreadable header. The regular end mark is a block of
    zeros, so the last block is remembered, and anything else leaves a note.
    """

    class Header(tarfile.TarInfo):
        last = b""

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            Header.last = bytes(buf)
            header = super().frombuf(buf, encoding, errors)
            if header.type in EXTENDED and header.size > limits.MAX_HEADER_BYTES:
                raise tarfile.HeaderError("a header without end")
            return header

    with tarfile.open(fileobj=packed, mode="r|", tarinfo=Header) as tar:
        for count, member in enumerate(tar):
            if count >= limits.MAX_MEMBERS:
                raise EndlessError(f"more than {limits.MAX_MEMBERS} members")
            if member.isdir() or not contents.accepts(member.name):
                continue
            if member.issym() or member.islnk():
                contents.note("refused: it is a link", member.name)
            elif not member.isreg():
                contents.note("refused: it is a device or pipe", member.name)
            elif (data := tar.extractfile(member)) is not None:
                packed_bytes = _packed_bytes(member)
                contents.store(member.name, data.read, packed_bytes, member.mtime)
    if len(Header.last) < tarfile.BLOCKSIZE or any(Header.last):
        contents.note("tar archive is cut or damaged: no end mark")


def _packed_bytes(member: tarfile.TarInfo) -> int:
    """Return the size of a member within the tar; a sparse one unpacks to more."""
    if member.issparse():
        return sum(size for _, size in getattr(member, "sparse", None) or ())
    return member.size
