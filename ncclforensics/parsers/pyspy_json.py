"""Parser for `py-spy dump --json`: the stacks of all threads of a process, as a list.

`[{"pid", "thread_id", "thread_name", "os_thread_id", "active", "owns_gil", "frames":
[{"name", "filename", "short_filename", "line"}]}]`, as py-spy 0.4 writes it; with
`--subprocesses`, threads of several processes. Several dumps may follow each other in
one file. The rows equal those parsed from py-spy's text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.parsers import documents
from ncclforensics.parsers.limits import MAX_RAS_BYTES
from ncclforensics.parsers.logs.message_parsers import pyspy
from ncclforensics.parsers.logs.stack_frames import Frame, Thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ncclforensics.sources import Source

MESSAGE = "stacks.pyspy"
TEXT = "a process that was inspected with py-spy"
COLUMNS = {
    **dict.fromkeys(("line", "pid", "stack", "depth", "file_line"), pl.Int64()),
    **dict.fromkeys(("command", "function", "file", "thread"), pl.String()),
    "thread_state": pl.String(),
    "is_main": pl.Boolean(),
}


def read(source: Source) -> Frames:
    """Parse the dumps of one file into the message `stacks.pyspy` and `events`.

    A source that cannot be parsed yields a row of `notes`, and what was read before.
    """
    rows: list[dict[str, Any]] = []
    notes = []
    try:
        with source.open() as stream:
            text = stream.read(MAX_RAS_BYTES).decode("utf-8", "replace")
        rows.extend(_rows(text))
    except documents.DAMAGE as error:
        why = f"not a dump of py-spy from here on: {error}"
        notes = [{"stage": "parsers", "text": why, "source": source.name}]
    noted = tables.rows("notes", notes)
    if not rows:
        return Frames({"notes": noted})
    captured = pl.DataFrame(rows, schema=COLUMNS, strict=False)
    who = {c: getattr(source, c) for c in ("rank", "local_rank", "host", "attempt")}
    heads = captured.select("line", "pid").unique(maintain_order=True).to_dicts()
    shared = {"message": MESSAGE, "role": "neutral", "text": TEXT, **who}
    events = tables.rows(
        "events", ({**shared, **head, "source": source.name} for head in heads)
    )
    told = events.drop("pid").join(captured, on="line", maintain_order="left")
    return Frames({"notes": noted, "events": events}, {MESSAGE: told})


def _rows(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of each dump in `text`, which begins with one."""
    decoder = json.JSONDecoder()
    at = 0
    while (at := _next(text, at)) < len(text):
        threads, end = decoder.raw_decode(text, at)
        above = text.count("\n", 0, at) + 1
        for number, pid in enumerate(dict.fromkeys(_number(t["pid"]) for t in threads)):
            mine = [t for t in threads if t["pid"] == pid]
            # the processes of one dump are told apart by their lines
            head = {"line": above + number, "pid": pid, "command": None}
            yield from (head | row for t in mine for row in _thread(t).rows())
        at = end


def _next(text: str, at: int) -> int:
    found = text.find("[", at)
    return len(text) if found < 0 else found


def _thread(told: dict[str, Any]) -> Thread:
    name = str(told.get("thread_name") or told.get("thread_id"))
    state = "active" if told.get("active") else "idle"
    frames: list[Frame] = [
        (
            str(frame["name"]),
            str(frame.get("short_filename") or frame.get("filename")),
            _number(frame["line"]) or None,
        )
        for frame in told["frames"]
    ]
    return Thread(name, name == pyspy.MAIN, state, frames)


def _number(told: Any) -> int:
    """Read a pid or a line; raises ValueError if it exceeds 32 bits."""
    number = int(told)
    if abs(number) > 2**32:
        raise ValueError(f"a number of {number.bit_length()} bits")
    return number
