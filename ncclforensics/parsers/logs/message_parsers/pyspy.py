"""`py-spy dump --pid PID`, 0.3 and 0.4: the stack of each thread, innermost first.

    Thread 41011 (idle): "MainThread"
        save_checkpoint (train.py:77)
        main (train.py:110)

With `--native`, frames of native code stand between them, mostly without a line
number: `poll (libc.so.6)`. With `--locals`, arguments stand below a frame, indented
further: of torch's send and recv, `peer` is the global rank on the other side. One file
may contain dumps of several processes.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs import stack_frames
from ncclforensics.parsers.logs.message_parsers.limits import capped
from ncclforensics.parsers.logs.stack_frames import Thread

COLUMNS = (*stack_frames.COLUMNS, "peer")
KINDS = {**stack_frames.KINDS, "peer": "int"}
MAIN = "MainThread"
_PROCESS = re.compile(r"\s*Process \d+: ")
_THREAD = re.compile(
    r'\s*Thread (?P<id>\S+) \((?P<state>[\w+]+)\)(?:: "(?P<name>[^"]*)")?'
)
# a local variable is indented by eight
_FRAME = re.compile(
    r"\s{1,7}(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d{1,9}))?\)\s*$"
)
_PEER = re.compile(r"\s{8,}(?:src|dst): (?P<rank>\d{1,6})\s*$")
TORCH = "distributed_c10d.py"


def parse(text: str) -> list[dict[str, object]]:
    """Return the rows of `stack_frames` for the first process in `text`."""
    process, *lines = capped(text).splitlines() or [""]
    margin = process[: len(process) - len(process.lstrip())]
    threads: list[Thread] = []
    peers: dict[tuple[int, int], int] = {}
    for line in lines:
        told = line.removeprefix(margin)
        if _PROCESS.match(told):
            break
        if thread := _THREAD.match(told):
            name = thread["name"] or thread["id"]
            threads.append(Thread(name, name == MAIN, thread["state"]))
        elif threads and (frame := _FRAME.match(told)):
            at = int(frame["line"]) if frame["line"] else None
            threads[-1].frames.append((frame["function"], frame["file"], at))
        elif threads and threads[-1].frames and (peer := _PEER.match(told)):
            frames = threads[-1].frames
            if str(frames[-1][1]).endswith(TORCH):
                peers[len(threads) - 1, len(frames) - 1] = int(peer["rank"])
    return [
        {**row, "peer": peers.get((n, depth))}
        for n, thread in enumerate(threads)
        for depth, row in enumerate(thread.rows())
    ]
