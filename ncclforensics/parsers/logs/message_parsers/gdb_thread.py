"""A thread of `thread apply all bt`, as gdb, gstack and pstack print it.

    Thread 1 (Thread 0x7fe238bc8b80 (LWP 41011) "python"):
    #0  0x00007fe238c99545 in clock_nanosleep (flags=1) at clock_nanosleep.c:48
    #1  0x00007f7c93529d50 in c10d::Work::wait() () from /opt/lib/libtorch_cpu.so

Thread 1 is the one that the process began with, and is printed last. Where gdb has the
helpers of Python, a frame of the interpreter holds that of Python: `Frame 0x7f, for
file train.py, line 9, in save (step=4)`.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs import stack_frames
from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.stack_frames import Frame, Thread

COLUMNS = stack_frames.COLUMNS
KINDS = stack_frames.KINDS
ANONYMOUS = "(anonymous namespace)"
_HEAD = re.compile(r'\s*Thread (?P<id>\d+) \(.*?(?:"(?P<name>[^"]*)")?\):?\s*$')
_FRAME = re.compile(
    r"\s*#\d+ +(?:0x[0-9a-f]+ in )?(?P<function>\S.*?)"
    r"(?: at (?P<file>\S+):(?P<line>\d{1,9})| from (?P<library>\S+))?\s*$"
)
_PYTHON = re.compile(
    r"Frame 0x[0-9a-f]+, for file (?P<file>.+?), line (?P<line>\d{1,9}), "
    r"in (?P<function>[^ (]+)"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return the rows of `stack_frames` for the first thread in `text`."""
    head, *lines = capped(text).splitlines() or [""]
    found = _HEAD.match(head)
    if found is None:
        return []
    name = found["name"] or found["id"]
    thread = Thread(name, found["id"] == "1")
    for line in lines:
        if frame := _FRAME.match(line):
            thread.frames.append(_frame(frame))
        elif thread.frames:
            break
    return list(thread.rows())


def _frame(frame: re.Match[str]) -> Frame:
    if python := _PYTHON.search(frame["function"]):
        return python["function"], python["file"], int(python["line"])
    bare = frame["function"].replace(ANONYMOUS, "{}").split("(")[0].strip()
    line = int(frame["line"]) if frame["line"] else None
    return bare.replace("{}", ANONYMOUS), frame["file"] or frame["library"], line
