"""Compressed streams, recognised by their first bytes and read as untrusted input.

Damage is normal: a truncated, corrupt or endless stream yields what was readable and
then ends, and `Reader.damage` says why. All four decoders get little input at a time,
so that no single call can exhaust memory.
"""

from __future__ import annotations

import bz2
import errno
import hashlib
import io
import lzma
import os
import stat
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import zstandard

from ncclforensics.sources import limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from _typeshed import WriteableBuffer


class Decoder(Protocol):
    """The common interface of zlib, lzma, bz2 and zstandard decoders."""

    def decompress(self, data: bytes, /) -> bytes: ...  # noqa: D102
    @property
    def eof(self) -> bool: ...  # noqa: D102
    @property
    def unused_data(self) -> bytes: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression format: its magic bytes, and a factory for decoders."""

    magic: bytes
    decoder: Callable[[], Decoder]


CODECS = {
    "gzip": Codec(b"\x1f\x8b\x08", lambda: zlib.decompressobj(wbits=31)),
    "xz": Codec(
        b"\xfd7zXZ\x00",
        lambda: lzma.LZMADecompressor(memlimit=limits.MAX_WINDOW_BYTES),
    ),
    "bzip2": Codec(b"BZh", bz2.BZ2Decompressor),
    "zstd": Codec(
        b"\x28\xb5\x2f\xfd",
        lambda: zstandard.ZstdDecompressor(
            max_window_size=limits.MAX_WINDOW_BYTES
        ).decompressobj(),
    ),
}
ERRORS = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, MemoryError)


def compression_of(head: bytes) -> str | None:
    """Return the compression of a file given its first bytes: a CODECS key or None."""
    for name, codec in CODECS.items():
        if head.startswith(codec.magic) and (name != "bzip2" or head[4:7] == b"1AY"):
            return name
    return None


class Unpacked(io.RawIOBase):
    """The decompressed bytes of a stream, up to the limits.

    `damage` is None until the stream ends early, then one line that says why.
    """

    def __init__(self, packed: io.RawIOBase, compression: str) -> None:
        """Decompress `packed` from its current position as `compression`."""
        self._packed = packed
        self._name = compression
        self._codec = CODECS[compression]
        self._decoder = self._codec.decoder()
        self._ready = memoryview(b"")
        self._taken = self._given = 0
        self._ended = False
        self.damage: str | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer` with the next bytes; returns 0 at the end, damaged or not."""
        while not self._ready and not self._ended:
            self._ready = memoryview(self._next())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close the compressed file as well."""
        self._packed.close()
        super().close()

    def _next(self) -> bytes:
        packed = self._packed.read(limits.FEED_BYTES) or b""
        self._taken += len(packed)
        if self._decoder.eof:
            # another frame, padding, or the end
            packed = (self._decoder.unused_data + packed).lstrip(b"\0")
            if not packed:
                return self._end(None)
            if not packed.startswith(self._codec.magic[: len(packed)]):
                return self._end("what follows its end is left out")
            self._decoder = self._codec.decoder()
        elif not packed:
            return self._end("the stream is cut")
        try:
            unpacked = self._decoder.decompress(packed)
        except ERRORS as error:
            return self._end(f"the stream is damaged ({error or 'no memory'})")
        self._given += len(unpacked)
        if self._given > limits.MAX_STREAM_BYTES or (
            self._given > limits.RATIO_FREE_BYTES
            and self._given > limits.MAX_RATIO * self._taken
        ):
            return self._end("it unpacks without end")
        return unpacked

    def _end(self, damage: str | None) -> bytes:
        self._ended = True
        self.damage = f"{self._name}: {damage}" if damage else None
        return b""


class Hashed(io.FileIO):
    """A file that is hashed while it is read sequentially."""

    sha256: str | None = None  # of the whole file, set once its end was read

    def __init__(self, path: Path) -> None:
        """Open `path`. Raises OSError."""
        super().__init__(path, opener=regular)
        self._hash = hashlib.sha256()

    def seekable(self) -> bool:
        """Return False, because each byte has to be hashed once."""
        return False

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Read and hash the next bytes."""
        count = super().readinto(buffer)
        self._met(memoryview(buffer).cast("B")[:count])
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and hash the next bytes."""
        data: bytes = super().read(size)
        self._met(data)
        return data

    def _met(self, data: bytes | memoryview) -> None:
        self._hash.update(data)
        if not data:
            self.sha256 = self._hash.hexdigest()


class Reader(io.BufferedReader):
    """The content of a file; `damage` says why it ended early, None if it did not."""

    def __init__(self, packed: io.FileIO, compression: str | None) -> None:
        """Read `packed`, decompressed if `compression` names a codec."""
        self._packed = packed
        super().__init__(
            packed if compression is None else Unpacked(packed, compression)
        )

    @property
    def damage(self) -> str | None:
        """One line on the damage found so far, or None."""
        return getattr(self.raw, "damage", None)

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the file as stored, None unless it was hashed to its end."""
        return getattr(self._packed, "sha256", None)


def open_file(path: Path, compression: str | None, hashed: bool = False) -> Reader:
    """Open `path`, decompressed if `compression` names a codec. Raises OSError."""
    file = Hashed(path) if hashed else io.FileIO(path, opener=regular)
    return Reader(file, compression)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file as stored. Raises OSError."""
    with open(path, "rb", opener=regular) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def regular(path: str, flags: int) -> int:
    """Opener for `open`: accepts regular files only, even if the path was replaced.

    Opening a pipe would block, and a device or a sparse file may be endless. Raises
    OSError.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        told = os.fstat(descriptor)
        if not stat.S_ISREG(told.st_mode):
            raise OSError(errno.EINVAL, "no file any more", path)
        if _is_hollow(descriptor, told.st_size):
            raise OSError(errno.EFBIG, "it is large and holds next to nothing", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_hollow(descriptor: int, size: int) -> bool:
    """Whether a file is so sparse that it exceeds MAX_RATIO, like a compressed bomb.

    File systems without sparse files report all of a file as data.
    """
    if size <= limits.RATIO_FREE_BYTES or not hasattr(os, "SEEK_DATA"):
        return False
    written = end = 0
    try:
        while written * limits.MAX_RATIO < size:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            written += end - start
    except OSError as error:
        if error.errno == errno.ENXIO:  # no data beyond this offset
            return True
        # some file systems do not support SEEK_DATA
    os.lseek(descriptor, 0, os.SEEK_SET)
    return False
