"""`py-spy dump --pid PID`: the stack of each thread of a process, innermost first.

    Thread 41011 (idle): "MainThread"
        save_checkpoint (train.py:77)
        main (train.py:110)

Frames of native code have no line number: `poll (libc.so.6)`. Only the main thread is
read, because it makes the calls of a training program. One file may contain dumps of
several processes.
"""

from __future__ import annotations

import hashlib
import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("stack", "depth", "function", "file", "file_line", "thread_state")
KINDS = {"stack": "int"}  # the frames of dumps have a UInt64 of that name
_PROCESS = re.compile(r"\s*Process \d+: ")
_THREAD = re.compile(r'\s*Thread \S+ \((?P<state>[\w+]+)\)(?:: "(?P<name>[^"]*)")?')
_FRAME = re.compile(
    r"\s+(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?\)\s*$"
)
MAIN = "MainThread"
BITS = 62  # of a stack number, so that it fits an Int64


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per frame of the main thread of the first process in `text`.

    Row: `stack` (its number, the same for equal stacks), `depth` (0 is innermost),
    `function`, `file` as printed, `file_line` (null in native code), `thread_state`.
    """
    frames: list[re.Match[str]] = []
    state: str | None = None
    for line in capped(text).splitlines()[1:]:
        if _PROCESS.match(line):
            break
        thread = _THREAD.match(line)
        if thread and state is not None:
            break
        if thread and thread["name"] == MAIN:
            state = thread["state"]
        elif state is not None and (frame := _FRAME.match(line)):
            frames.append(frame)
    whole = "\n".join(frame[0].strip() for frame in frames)
    digest = hashlib.blake2b(whole.encode(), digest_size=8).digest()
    stack = int.from_bytes(digest, "big") >> (64 - BITS)
    return [
        {
            "stack": stack,
            "depth": depth,
            "function": frame["function"],
            "file": frame["file"],
            "file_line": int(frame["line"]) if frame["line"] else None,
            "thread_state": state,
        }
        for depth, frame in enumerate(frames)
    ]
