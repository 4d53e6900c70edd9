"""When a kernel log ends: the time of its last line, whatever that line says.

The absence of a kernel message is evidence only up to the time when the log was saved.
Logs of other programs need no such row, because their messages cover the job's own
time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.tables import SCHEMAS
from ncclforensics.parsers.logs import framing
from ncclforensics.sources.compression import regular

if TYPE_CHECKING:
    from ncclforensics.sources import Source

MESSAGE = "kernel.log_ends"
NAMES = re.compile(r"(?i)(?:dmesg|kern|journal|syslog|messages)[^/]*$")
TAIL_BYTES = 8192
TAIL_LINES = 8
PACKED_BYTES = 16 << 20  # compressed logs larger than this are not read twice


def end(source: Source, lines: int) -> pl.DataFrame | None:
    """Return the last line that has a time, as a row of `events`.

    `lines` is the number of lines of the log. Returns None if the file name is not that
    of a kernel log, or if none of the last TAIL_LINES lines has a time.
    """
    if not NAMES.search(source.name):
        return None
    try:
        tail = _tail(source)
    except (OSError, EOFError, ValueError):
        return None
    rows = tail.decode("utf-8", "replace").rstrip("\r\n").split("\n")[-TAIL_LINES:]
    first = lines - len(rows) + 1
    numbered = {"line": range(first, lines + 1), "raw": rows}
    framed = framing.frame(pl.DataFrame(numbered, schema_overrides={"line": pl.Int64}))
    timed = framed.filter(pl.col("t").is_not_null() | pl.col("yearless").is_not_null())
    if timed.is_empty():
        return None
    told = timed.tail(1).with_columns(
        pl.lit(MESSAGE).alias("message"),
        pl.lit("neutral").alias("role"),
        pl.lit(source.name).alias("source"),
        pl.coalesce("host", pl.lit(source.host, pl.String)).alias("host"),
    )
    return tables.conform("events", told.select(c for c in SCHEMAS["events"]))


def _tail(source: Source) -> bytes:
    """Return the last TAIL_BYTES of a log, nothing of a large compressed one."""
    if source.compression is None:
        with open(source.path, "rb", opener=regular) as file:
            file.seek(max(source.bytes - TAIL_BYTES, 0))
            return file.read(TAIL_BYTES)
    if source.bytes > PACKED_BYTES:
        return b""
    kept = b""
    with source.open() as stream:
        while block := stream.read(1 << 20):
            kept = (kept + block)[-TAIL_BYTES:]
    return kept
