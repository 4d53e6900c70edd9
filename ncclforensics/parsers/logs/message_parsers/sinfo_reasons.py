"""`sinfo -R`, also with `-l`: why nodes are down or drained, one line per reason.

`REASON               USER      TIMESTAMP           NODELIST`, columns of fixed width in
which a reason is cut at 20 characters; `-l` adds the state before the nodes.
"""

from __future__ import annotations

import re

from ncclforensics.model.hostlist import expanded
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host", "reason", "by", "when", "node_state", "node_line", "below")
KINDS = {"below": "int"}
_ROW = re.compile(
    r"(?P<reason>.*?)\s+(?P<by>[\w.-]+)(?:\(\d+\))?\s+(?P<when>\d{4}-\d\d-\d\dT[\d:]+)"
    r"\s+(?:(?P<node_state>[a-z]+[*~#!%$@^+-]*)\s+)?(?P<nodes>\S+)\s*"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row per node, with the columns COLUMNS.

    `node_line` is the line as printed, `below` its distance from the column names.
    """
    rows: list[dict[str, object]] = []
    for below, line in enumerate(capped(text).splitlines()[1:], 1):
        found = _ROW.fullmatch(line)
        if found is None:
            break
        told = found.groupdict()
        nodes = expanded(told.pop("nodes"))
        rows += (
            {**told, "host": host, "node_line": line, "below": below} for host in nodes
        )
    return rows
