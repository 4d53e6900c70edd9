"""torchelastic's `error.json`: the exception of a worker whose main is `@record`ed.

`{"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "…",
"timestamp": "1795167676"}}}`, as torch 1.9 to 2.13 write it
(`elastic/multiprocessing/errors/error_handler.py`); older ones hold a plain string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from ncclforensics import tables
from ncclforensics.frames import Frames
from ncclforensics.parsers.limits import MAX_ERROR_BYTES
from ncclforensics.parsers.structures import traceback
from ncclforensics.tables import TIME

if TYPE_CHECKING:
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


def read(source: Source) -> Frames:
    """Read one error file: one `events` row, with captures as of a traceback."""
    try:
        with source.open() as stream:
            data = stream.read(MAX_ERROR_BYTES + 1)
        if len(data) > MAX_ERROR_BYTES:
            raise ValueError(f"it is larger than {MAX_ERROR_BYTES >> 20} MiB")
        content = msgspec.json.decode(data)
        told = content["message"]
        extra: dict[str, Any] = {}
        if isinstance(told, dict):
            extra = told.get("extraInfo") or {}
            told = told["message"]
        text = str(told)
        stack = str(extra.get("py_callstack") or text)
    except (
        OSError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        note = {"stage": "parsers", "text": f"no error file of torchelastic: {error}"}
        return Frames({"notes": tables.rows("notes", [note | {"source": source.name}])})
    stamp = str(extra.get("timestamp", ""))
    event = {
        "message": MESSAGE,
        "role": "either",
        "level": "ERROR",
        "text": text.splitlines()[0] if text else "",
        "rank": source.rank,
        "local_rank": source.local_rank,
        "host": source.host,
        "attempt": source.attempt,
        "source": source.name,
        "line": 1,
    }
    events = tables.rows("events", [event]).with_columns(
        (
            pl.lit(int(stamp) if stamp.isdecimal() and len(stamp) < 12 else None)
            * 1_000_000_000
        )
        .cast(pl.Int64)
        .cast(TIME)
        .alias("t")
    )
    name, _, rest = text.partition(":")
    told = {"exception": name, "message": rest.strip()}
    captured = pl.DataFrame(
        (traceback.parse(stack) or [told])[:1], schema=CAPTURES, strict=False
    )
    captures = events.join(captured.rename({"message": "message_text"}), how="cross")
    return Frames({"events": events}, {MESSAGE: captures})
