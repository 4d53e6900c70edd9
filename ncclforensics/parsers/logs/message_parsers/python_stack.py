"""A thread's stack as Python prints it: faulthandler, gdb's py-bt, Ray Train.

    Thread 0x00007f6ff7bd8b80 (most recent call first):
      File "/job/train.py", line 9 in save_checkpoint
      File "/job/train.py", line 29 in <module>

faulthandler writes a block per thread, the youngest thread first, without a name before
Python 3.14. py-bt writes `, in NAME` and the line of code below. Where py-spy is
missing, Ray Train's hang detector writes `# Thread 140` and the outermost frame first.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs import stack_frames
from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.stack_frames import Thread

COLUMNS = stack_frames.COLUMNS
KINDS = stack_frames.KINDS
_HEAD = re.compile(
    r"\s*(?:# )?(?:Current )?(?:[Tt]hread (?P<id>\w+)(?: \[(?P<name>.*)\])?)?"
)
_FRAME = re.compile(
    r'\s+File "(?P<file>[^"]+)", line (?P<line>\d{1,9}|\?{3}),? '
    r"in (?P<function>.+?)\s*$"
)
# how the first thread of a process begins; `threading` begins all others
BEGINS = ("<module>", "_run_module_as_main", "_run_code")


def parse(text: str) -> list[dict[str, object]]:
    """Return the rows of `stack_frames` for the first thread in `text`."""
    head, *lines = capped(text).splitlines() or [""]
    found = _HEAD.match(head)
    name = (found and (found["name"] or found["id"])) or ""
    thread = Thread(name)
    for line in lines:
        if frame := _FRAME.match(line):
            at = int(frame["line"]) if frame["line"].isdigit() else None
            thread.frames.append((frame["function"], frame["file"], at))
        # code and `...` are indented
        elif not line.startswith("  ") and (thread.frames or line.strip()):
            break
    if head.lstrip().startswith("#"):
        thread.frames.reverse()
    thread.is_main = bool(thread.frames) and thread.frames[-1][0] in BEGINS
    return list(thread.rows())
