"""Parser for torchelastic's `error.json`: the exception of an `@record`ed worker.

`{"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "…",
"timestamp": "1795167676"}}}`, as torch 1.9 to 2.13 write it
(`elastic/multiprocessing/errors/error_handler.py`). Older versions write the message
as a plain string.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames, join
from ncclforensics.model.tables import TIME
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_ERROR_BYTES
from ncclforensics.parsers.logs.message_parsers import traceback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ncclforensics.sources import Source

MESSAGE = "torchelastic.error_file"
CAPTURES = {
    "exception": pl.String(),
    "message": pl.String(),
    "file": pl.String(),
    "file_line": pl.Int64(),
    "function": pl.String(),
    "chained": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class Told:
    """Content of one error file; `stamp` is epoch seconds as text, as written."""

    text: str
    stack: str
    stamp: str


def read_all(sources: Sequence[Source]) -> Frames:
    """Parse error files: one `events` row each, with the captures of a traceback.

    A file that cannot be parsed yields a row of `notes` instead.
    """
    files = [(source, content(source)) for source in sources]
    refused = [
        {"stage": "parsers", "text": told, "source": source.name}
        for source, told in files
        if isinstance(told, str)
    ]
    notes = Frames({"notes": tables.rows("notes", refused)})
    read_ = [(source, told) for source, told in files if isinstance(told, Told)]
    return join([notes, frames(read_)]) if read_ else notes


def content(source: Source) -> Told | str:
    """Return the content of a file, or the reason why it is not an error file."""
    try:
        data = documents.whole(source, MAX_ERROR_BYTES)
        told = msgspec.json.decode(data)["message"]
        extra: dict[str, Any] = {}
        if isinstance(told, dict):
            extra = told.get("extraInfo") or {}
            told = told["message"]
        text = str(told)
        stack = str(extra.get("py_callstack") or text)
        return Told(text, stack, str(extra.get("timestamp", "")))
    except documents.DAMAGE as error:
        return f"not an error file of torchelastic: {error}"


def frames(files: Sequence[tuple[Source, Told]]) -> Frames:
    """Return `events` and the captures of MESSAGE, one row per file, in order."""
    events = tables.rows("events", [_event(*file) for file in files])
    seconds = pl.Series("t", [_seconds(told.stamp) for _, told in files], pl.Int64())
    events = events.with_columns((seconds * 1_000_000_000).cast(TIME))
    captured = pl.DataFrame(
        [_raised(told) for _, told in files], schema=CAPTURES, strict=False
    )
    captures = events.hstack(captured.rename({"message": "message_text"}))
    return Frames({"events": events}, {MESSAGE: captures})


def _event(source: Source, told: Told) -> dict[str, object]:
    return {
        "message": MESSAGE,
        "role": "either",
        "level": "ERROR",
        "text": told.text.splitlines()[0] if told.text else "",
        "rank": source.rank,
        "local_rank": source.local_rank,
        "host": source.host,
        "attempt": source.attempt,
        "source": source.name,
        "line": 1,
    }


def _seconds(stamp: str) -> int | None:
    return int(stamp) if stamp.isdecimal() and len(stamp) < 12 else None


def _raised(told: Told) -> dict[str, Any]:
    """Return the exception from the traceback, or from the message without one."""
    if found := traceback.parse(told.stack):
        return found[0]
    name, _, rest = told.text.partition(":")
    return {"exception": name, "message": rest.strip()}
