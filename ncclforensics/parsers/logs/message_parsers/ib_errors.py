"""One node of `ibqueryerrors`: what its ports counted beyond their thresholds.

Errors for "gpu0045 mlx5_2"
   GUID 0x9c63… port 1: [SymbolErrorCounter == 65535] [LinkDownedCounter == 31]
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("port", "counter", "count")
KINDS = {"port": "int", "count": "int"}
_PORT = re.compile(r"\s+GUID 0x[0-9a-f]+ port (?P<port>[0-9]{1,3}|ALL):(?P<told>.*)$")
_COUNT = re.compile(r"\[(\w+) == ([0-9]{1,18})\b")


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `port counter count` per counter; of all ports, the port is null."""
    rows: list[dict[str, object]] = []
    for line in capped(text).splitlines()[1:]:
        port = _PORT.match(line)
        if port is None:
            break
        number = int(port["port"]) if port["port"] != "ALL" else None
        rows += [
            {"port": number, "counter": counter, "count": int(count)}
            for counter, count in _COUNT.findall(port["told"])
        ]
    return rows
