"""Formats that are found beside evidence: images, programs, checkpoints.

Only magics that no text begins with are listed, so that a log cannot match.
"""

from __future__ import annotations

import re

MAGICS: tuple[tuple[bytes, str], ...] = (
    (rb"\x89PNG\r\n", "a PNG image"),
    (rb"\xff\xd8\xff", "a JPEG image"),
    (rb"GIF8[79]a", "a GIF image"),
    (rb"RIFF....(?:WEBP|WAVE|AVI )", "a RIFF file: image, audio or video"),
    (rb"(?:II\*\0|MM\0\*)", "a TIFF image"),
    (rb"BM....\0\0\0\0....[\x0c-\x7c]\0\0\0", "a BMP image"),
    (rb"\0\0\0.ftyp", "an MP4 video or HEIC image"),
    (rb"%PDF-\d", "a PDF document"),
    (rb"\x7fELF", "an ELF program, library or core dump"),
    (rb"MZ.{58}.{2}\0\0", "a Windows program"),
    (rb"\xca\xfe\xba\xbe", "a Java class"),
    (rb"\0asm", "a WebAssembly module"),
    (rb"\x93NUMPY", "a NumPy array"),
    (rb"\x89HDF\r\n", "an HDF5 file"),
    (rb"PAR1[\x00-\x1f]", "a Parquet file"),
    (rb"ARROW1\0", "an Arrow file"),
    (rb".{4}\0{4}\{\"", "a safetensors checkpoint"),
    (rb"SQLite format 3\0", "an SQLite database (Nsight Systems exports are such)"),
    (rb"LPKSHHRH", "a systemd journal: export it with journalctl first"),
    (rb"PERFILE2", "a perf recording"),
    (rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x0a\x0d\x0d\x0a", "a packet capture"),
    (rb"(?:FWS|CWS|OggS\0|fLaC\0|ID3[\x02-\x04])", "an audio or video file"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive, which is not opened"),
    (rb"Rar!\x1a\x07", "a RAR archive, which is not opened"),
    (rb"\x04\x22\x4d\x18", "an lz4 stream, which is not opened"),
    (rb"\x1f\x9d", "a stream of compress(1), which is not opened"),
    (rb"PK\x03\x04", "a zip archive"),
    (rb"\x1f\x8b\x08|\xfd7zXZ\0|\x28\xb5\x2f\xfd", "a compressed stream in another"),
)
_ANY = re.compile(b"|".join(b"(%b)" % magic for magic, _ in MAGICS), re.DOTALL)


def magic_of(head: bytes) -> str | None:
    """Return the format of a file given its first bytes, or None."""
    found = _ANY.match(head)
    return MAGICS[found.lastindex - 1][1] if found and found.lastindex else None
