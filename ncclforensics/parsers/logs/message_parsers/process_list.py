"""`ps` with the column WCHAN: which processes wait in the kernel, and where.

    PID STAT WCHAN                            COMMAND
  41018 Ds   request_wait_answer              /opt/venv/bin/python3 -u train.py

Only processes that cannot go on are read: those in state D wait for a device or a
server, and no signal reaches them; those in state T were stopped by one. The columns
may come in any order; the command, if it is there, is the last one.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.call_trace import file_system
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = (
    *("pid", "state", "name", "file_system", "waits_at"),
    *("below", "process_line"),
)
KINDS = {"below": "int"}
_PID = re.compile(r"[0-9]{1,10}$")
_STATES = ("STAT", "S")
COMMANDS = ("COMMAND", "CMD")
STANDS = ("D", "T")


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `pid state name file_system waits_at` per process in state D or T.

    `file_system` is null if the function is of none, `name` without a command. `below`
    is the distance in lines from the column names, and `process_line` the line as
    printed.
    """
    lines = capped(text).splitlines()
    names = lines[0].split() if lines else []
    state = next((name for name in names if name in _STATES), None)
    if state is None or not {"PID", "WCHAN"} <= set(names):
        return []
    rows: list[dict[str, object]] = []
    for below, line in enumerate(lines[1:], 1):
        values = line.split(None, len(names) - 1)
        told = dict(zip(names, values, strict=False))
        # what was cut off at the end is the command
        least = len(names) - (names[-1] in COMMANDS)
        if len(values) < least or not _PID.match(told["PID"]):
            break
        if told[state].startswith(STANDS):
            rows.append(
                {
                    "pid": int(told["PID"]),
                    "state": told[state][0],
                    "name": told.get(names[-1]) if names[-1] in COMMANDS else None,
                    "file_system": file_system(told["WCHAN"]),
                    "waits_at": told["WCHAN"],
                    "below": below,
                    "process_line": line.strip(),
                }
            )
    return rows
