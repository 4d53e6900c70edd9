"""The node whose daemon mpirun lost, as Open MPI up to 2.0 prints it.

The sentence ends at `on node:`; an empty line and `hostname:  gpu0001` follow.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host",)
_NODE = re.compile(r"(?m)^\s*hostname:[ \t]+(?P<host>[\w.-]+)[ \t\r]*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `host`, or an empty list if that line is missing."""
    found = _NODE.search(capped(text))
    return [{"host": found["host"]}] if found else []
