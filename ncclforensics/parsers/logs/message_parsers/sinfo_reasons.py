"""`sinfo -R`, also with `-l`, and `sinfo -o` with any columns: why nodes are down.

The first line names the columns, for example `REASON USER TIMESTAMP NODELIST`; each
line below has a node list, and a reason that may have blanks.
"""

from __future__ import annotations

import re

from ncclforensics.model.hostlist import expanded
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host", "reason", "by", "when", "node_state", "node_line", "below")
KINDS = {"below": "int"}
# what a column holds, by its name; others hold one word
_CELLS = {
    "REASON": r"(?P<reason>.*?)",
    "USER": r"(?P<by>[\w.-]+)(?:\(\d+\))?",
    "TIMESTAMP": r"(?P<when>\d{4}-\d\d-\d\dT[\d:]+|Unknown)",
    "STATE": r"(?P<node_state>[a-z]+[*~#!%$@^+-]*)",
    "NODELIST": r"(?P<nodes>\S+)",
}


def parse(text: str) -> list[dict[str, object]]:
    """Return a row per node, with the columns COLUMNS.

    `node_line` is the line as printed, `below` its distance from the column names.
    """
    heading, *lines = capped(text).splitlines() or [""]
    cells = dict(_CELLS)
    words = (cells.pop(name, r"\S+") for name in heading.split())
    row = re.compile(r"\s+".join(words) + r"\s*")
    rows: list[dict[str, object]] = []
    for below, line in enumerate(lines, 1):
        found = row.fullmatch(line)
        if found is None:
            break
        told = {**dict.fromkeys((*COLUMNS, "nodes")), **found.groupdict()}
        nodes = expanded(told["nodes"] or "")
        rows += (
            {c: told[c] for c in COLUMNS}
            | {"host": host, "node_line": line, "below": below}
            for host in nodes
        )
    return rows
