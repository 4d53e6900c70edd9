"""The tasks that JAX's coordination service lists below a message, one per line.

`/job:jax_worker/replica:0/task:3` is the process with `process_id` 3. Where gRPC quotes
the message, its line breaks are escaped. Above the list may stand which task came first
and how many came.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("missing", "came", "expected")
KINDS = {"missing": "ints", "came": "int", "expected": "int"}
_LIST = re.compile(
    r"(?:[Tt]imed out task names|stopped sending heartbeats\)):?"
    r"(?P<tasks>(?:\s*/job:\w+(?:/replica:\d+)?/task:\d{1,6})+)"
)
_TASK = re.compile(r"/task:(\d{1,6})", re.ASCII)
_CAME = re.compile(r"# of tasks that reached the barrier: (\d{1,6})/(\d{1,6})")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `missing` tasks, and how many `came` of `expected`, or null."""
    cut = capped(text).replace("\\n", "\n")
    listed, counted = _LIST.search(cut), _CAME.search(cut)
    tasks = {int(task) for task in _TASK.findall(listed["tasks"])} if listed else set()
    return [
        {
            "missing": sorted(tasks) or None,
            "came": int(counted[1]) if counted else None,
            "expected": int(counted[2]) if counted else None,
        }
    ]
