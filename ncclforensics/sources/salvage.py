"""Reads the members of a zip archive whose central directory is lost.

Each member is preceded by its own header. Stored and deflated members can be read in
order up to the cut. A deflate stream marks its own end, so sizes that are written only
after the data (bit 3 of the flags) are not needed.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from ncclforensics.sources import limits

HEADER = struct.Struct("<4s5H3I2H")  # APPNOTE 4.3.7, without name and extra field
MAGIC = b"PK\x03\x04"
STORED, DEFLATED = 0, 8
ENCRYPTED, SIZE_BEHIND, UTF8 = 1 << 0, 1 << 3, 1 << 11
SIZE_IN_EXTRA = 0xFFFFFFFF

Read = Callable[[int], bytes]


def members_before_cut(packed: BinaryIO) -> Iterator[tuple[str, Read, int]]:
    """Yield (name, reader, packed size or 0 if unknown) of the members, in order.

    Each must be read to its end before the next one is requested. A reader raises
    EOFError at the cut. Stops at the first header that is unreadable or unsupported.
    """
    packed.seek(0)
    while True:
        raw = packed.read(HEADER.size)
        if len(raw) < HEADER.size or not raw.startswith(MAGIC):
            return
        _, _, flags, method, _, _, _, size, _, name_size, extra = HEADER.unpack(raw)
        encoding = "utf-8" if flags & UTF8 else "cp437"
        name = packed.read(name_size).decode(encoding, "replace")
        packed.seek(extra, io.SEEK_CUR)
        if flags & ENCRYPTED:
            return
        if method == DEFLATED:
            yield name, _inflated(packed), 0 if flags & SIZE_BEHIND else size
            if flags & SIZE_BEHIND:
                _skip_descriptor(packed)
        elif method == STORED and not flags & SIZE_BEHIND and size != SIZE_IN_EXTRA:
            if not name.endswith("/"):
                yield name, _slice(packed, size), size
        else:
            return


def _inflated(packed: BinaryIO) -> Read:
    """Return a reader of one raw deflate stream; it leaves the file at its end."""
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)

    def read(_: int) -> bytes:
        while not decoder.eof:
            data = packed.read(limits.FEED_BYTES)
            if not data:
                raise EOFError("the archive is cut here")
            unpacked = decoder.decompress(data)
            packed.seek(-len(decoder.unused_data), io.SEEK_CUR)
            if unpacked:
                return unpacked
        return b""

    return read


def _slice(packed: BinaryIO, size: int) -> Read:
    """Return a reader of the next `size` bytes."""
    left = size

    def read(most: int) -> bytes:
        nonlocal left
        data = packed.read(min(left, most))
        if left and not data:
            raise EOFError("the archive is cut here")
        left -= len(data)
        return data

    return read


def _skip_descriptor(packed: BinaryIO) -> None:
    """Seek to the next header: checksum and sizes take 12 to 24 bytes."""
    start = packed.tell()
    at = packed.read(24 + len(MAGIC)).find(MAGIC)
    packed.seek(start + max(at, 0))
