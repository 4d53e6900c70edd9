"""Reads the members of a zip archive whose central directory is lost.

Each member has a header of its own in front. Stored and deflated ones can be read in
order until the cut; deflate says itself where it ends, so sizes that were written only
behind the data (bit 3 of the flags) are not needed.
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
    """Yield name, reader and packed size (0: unknown) of the members from the start.

    Each must be read to its end before the next is asked for. A reader raises EOFError
    at the cut. Ends at the first header that cannot be read or used.
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
    """Read one raw deflate stream and leave the file right behind it."""
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
    """Read the next `size` bytes."""
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
    """Move to the next header: checksum and sizes take 12 to 24 bytes."""
    start = packed.tell()
    at = packed.read(24 + len(MAGIC)).find(MAGIC)
    packed.seek(start + max(at, 0))
