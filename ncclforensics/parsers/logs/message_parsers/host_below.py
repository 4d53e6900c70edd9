"""The host that a message names, in its own line or in a line below.

Open MPI up to 2.0 ends its sentence at `on node:`; an empty line and `hostname:
gpu0001` follow. Ray's `at node (ID: …, IP: 10.0.0.1)` stands on a line of its own where
a terminal was narrower than the sentence; its `The node IP: 10.0.0.1, node ID: …` is a
paragraph of its own.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host",)
_NODE = re.compile(
    r"(?m)^\s*hostname:[ \t]+(?P<host>[\w.-]+)[ \t\r]*$"
    r"|\(ID:\s*\w+,\s*IP:\s*(?P<ip>[^\s,)]+)\)"
    r"|^The node IP: (?P<lost>[\w.:]+), node ID: \w"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `host`, or an empty list if it is missing."""
    found = _NODE.search(capped(text))
    names = [name for name in found.groups() if name] if found else []
    return [{"host": name} for name in names]
