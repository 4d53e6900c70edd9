"""Exports of log services, which have to be read whole before their lines are lines.

A CSV table, `journalctl -o export`, what gcloud prints, JSON documents, and JSON lines
that are newest first or hold several lines each. All become one frame of lines in the
order of time, with what each record tells beside its line. Other JSON lines need none
of this: `json_records` unwraps the few that matter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from ncclforensics.parsers.logs import (
    csv_records,
    gcloud_yaml,
    grammar,
    journal_export,
    json_records,
    record_documents,
    timestamps,
)
from ncclforensics.parsers.logs.captures import NUMBERS
from ncclforensics.parsers.logs.lines import decoded, utf8

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from ncclforensics.model.frames import Frames
    from ncclforensics.parsers.logs.grammar import Message

SPREAD = ("csv", "journal", "yaml")  # their records have the line breaks of the file
MAX_BYTES = 256 << 20  # of a file that is read whole
NEAR = 400  # records on each side of a needle that may belong to its message
_RECORD = re.compile(json_records.RECORD)
HEAD_LINES = 64  # of JSON lines, from which their order is judged
NEWEST_FIRST = "its records are newest first; they are read in the order of time"


def form(head: bytes) -> str | None:
    """Return how a file of records is laid out, judged by its first bytes, or None.

    "csv", "journal", "yaml", "document", or "lines" for JSON lines that cannot be read
    line by line.
    """
    if head.startswith(journal_export.HEAD):
        return "journal"
    if gcloud_yaml.HEAD.match(head):
        return "yaml"
    if record_documents.form(head) is not None:
        return "document"
    first = head.split(b"\n", 1)[0]
    if is_json_lines(head):
        lines = decoded(head[: head.rfind(b"\n") + 1] or head, 1).lines
        told = json_records.unwrapped(lines.head(HEAD_LINES))
        folded = bool(told["raw"].str.contains("\n", literal=True).any())
        return "lines" if folded or _newest_first(told) else None
    if csv_records.columns(first.decode("utf-8", "replace").strip()):
        return "csv"
    return None


def is_json_lines(head: bytes) -> bool:
    """Whether a file begins with a record on one line, and is not Docker's."""
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    is_record = _RECORD.match(first) is not None
    return is_record and not first.startswith(json_records.DOCKER)


def read(stream: BinaryIO, messages: Sequence[Message]) -> tuple[pl.DataFrame, int]:
    """Read a file of records; returns its lines, and the number of lines of the file.

    Its columns are `line` (1-based, in the order of time), `place` (the line of the
    file), `raw`, and COLUMNS of json_records. `place` descends if the records were
    newest first. Raises ValueError if it is no such file after all, or
    longer than MAX_BYTES.
    """
    data = utf8(stream).read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    kind = form(data[: 1 << 18])
    try:
        match kind:
            case "csv":
                records = csv_records.read(data)
            case "journal":
                records = journal_export.read(data)
            case "document":
                records = _of_document(data, messages)
            case "yaml":
                records = gcloud_yaml.read(data)
            case _:
                near = _near(decoded(data, 1).lines, messages)
                records = json_records.unwrapped(near)
    except (msgspec.DecodeError, pl.exceptions.PolarsError) as error:
        raise ValueError(str(error)) from error
    records = records.drop_nulls("raw")
    if _newest_first(records):
        records = records.reverse()
    lines = _lines(records, spread=kind in SPREAD)
    return lines, decoded(data, 1).count


def _of_document(data: bytes, messages: Sequence[Message]) -> pl.DataFrame:
    """Return the lines of a document's records."""
    form = record_documents.form(data[: 1 << 18])
    if form is None:
        raise ValueError("its records are of no known form")
    told = json_records.unwrapped(_near(record_documents.read(data, form), messages))
    return told.filter(~pl.col("raw").str.contains(json_records.OBJECT))


def _near(lines: pl.DataFrame, messages: Sequence[Message]) -> pl.DataFrame:
    """Return the lines with a needle and NEAR lines on each side of them.

    What belongs to a message may stand above it: the order is not known yet.
    """
    needed = grammar.has_needle("raw", messages)
    needed |= pl.col("raw").str.contains_any(json_records.UNSEARCHABLE)
    held = lines.select(needed.cast(pl.Int8))["raw"]
    for _ in range(2):
        held = held.reverse().rolling_max(NEAR + 1, min_samples=1)
    return lines.filter(held.cast(pl.Boolean))


def _newest_first(records: pl.DataFrame) -> bool:
    step = records.select(timestamps.absolute("told_t").diff().cast(pl.Int64).sign())
    signs = step.to_series()
    return int((signs < 0).sum()) > int((signs > 0).sum())


def _lines(records: pl.DataFrame, spread: bool) -> pl.DataFrame:
    """Split records of several lines into `line`, `place`, `raw` and COLUMNS.

    With `spread`, a line break inside a record is one of the file.
    """
    inner = pl.col("raw").str.strip_chars_end("\r\n").str.split("\n")
    below = pl.int_ranges(pl.col("raw").list.len()) * int(spread)
    return (
        records.with_columns(inner)
        .with_columns((pl.col("line") + below).alias("place"))
        .explode("raw", "place")
        .with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line"))
    )


def cited(frames: Frames, place: pl.Series) -> Frames:
    """Return `frames` of numbered records with the lines of their file."""

    def cite(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.is_empty() or "line" not in frame.columns:
            return frame
        return frame.with_columns(
            place.gather(frame[c] - 1).alias(c) for c in NUMBERS if c in frame.columns
        )

    return frames.each(cite)
