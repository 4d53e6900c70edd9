"""What kind of text a log is, by its size and first bytes: how it has to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncclforensics.parsers.logs import record_files, scan
from ncclforensics.parsers.logs.lines import UTF16

if TYPE_CHECKING:
    from ncclforensics.sources import Source


def hashes(source: Source) -> bool:
    """Whether a log is read sequentially, and is therefore hashed while reading."""
    return source.compression is not None or spans(source) < 2 or _is_utf16(source)


def spans(source: Source) -> int:
    """Return in how many places at once a log is scanned."""
    return -(-source.bytes // scan.SPAN_BYTES)


def _is_utf16(source: Source) -> bool:
    try:
        with source.open() as stream:
            return stream.peek(2).startswith(UTF16)
    except OSError:
        return True


def is_in_pieces(source: Source) -> bool:
    """Whether a log is read whole, judged by its head: records, or a paste."""
    begins = head(source)
    return record_files.form(begins) is not None or bool(scan.paste(begins))


def is_put_together(source: Source) -> bool:
    """Whether the lines that are read of a log are others than those of its file."""
    begins = head(source)
    steps = {name for name, _ in scan.paste(begins)}
    return record_files.form(begins) is not None or bool(
        steps - {"prompts", "headings"}
    )


def head(source: Source) -> bytes:
    """Return the first bytes of a log, as UTF-8."""
    with source.open() as stream:
        return scan.head(stream)
