"""`ethtool eth0`: how fast an interface is, and whether its cable is plugged in.

Settings for eth0:
        Speed: 10000Mb/s
        Link detected: yes
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("speed", "link")
_VALUE = re.compile(r"\s+(?P<name>Speed|Link detected): (?P<value>\S[^\n]*?)\s*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `speed link` as printed (`10000Mb/s`, `yes`), or none."""
    row: dict[str, object] = {}
    for line in capped(text).splitlines()[1:]:
        if not line[:1].isspace():
            break
        if found := _VALUE.match(line):
            row["speed" if found["name"] == "Speed" else "link"] = found["value"]
    return [{"speed": None, "link": None} | row] if row else []
