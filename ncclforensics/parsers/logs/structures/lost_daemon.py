"""The node whose daemon mpirun lost, as Open MPI named it up to 2.0.

The sentence ends at `on node:`; behind an empty line stands `hostname:  gpu0001`.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.structures.limits import capped

COLUMNS = ("host",)
_NODE = re.compile(r"(?m)^\s*hostname:[ \t]+(?P<host>[\w.-]+)[ \t\r]*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `host`, or none where the line below is lost."""
    found = _NODE.search(capped(text))
    return [{"host": found["host"]}] if found else []
