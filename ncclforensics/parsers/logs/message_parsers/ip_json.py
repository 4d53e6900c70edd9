"""`ip -j link` and `ip -j addr`, on one line or spread by `-p`: interfaces that are up.

    [{"ifindex":2,"ifname":"eth0","flags":["BROADCAST","UP","LOWER_UP"],"mtu":9000,…

Only a few values are wanted of each, so they are searched for, one interface after the
other: a list that was cut off still tells of the interfaces before the cut.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("interface", "mtu", "carried")
KINDS = {"mtu": "int", "carried": "int"}
_START = '"ifindex"'
_NAME = re.compile(r'"ifname": ?"([^"]+)"')
_FLAGS = re.compile(r'"flags": ?\[([^\]]*)\]')
_MTU = re.compile(r'"mtu": ?([0-9]{1,6})\b')
_BYTES = re.compile(r'"[rt]x": ?\{\s*"bytes": ?([0-9]{1,18})\b')


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `interface mtu carried` per interface that is up.

    `carried` are the bytes received and sent since it is there, which `-s` adds.

    Spread over lines, every interface starts a message of its own: then only the first
    one of `text` is read.
    """
    text = capped(text)
    head = text.partition("\n")[0]
    spread = head.count(_START) == 1 and _NAME.search(head) is None
    parts = (text if spread else head).split(_START)[1:]
    rows: list[dict[str, object]] = []
    for part in parts[:1] if spread else parts:
        name, flags, mtu = (x.search(part) for x in (_NAME, _FLAGS, _MTU))
        if name and flags and mtu and '"UP"' in flags[1]:
            ways = [int(count) for count in _BYTES.findall(part)]
            carried = sum(ways) if len(ways) == 2 else None
            rows.append({"interface": name[1], "mtu": int(mtu[1]), "carried": carried})
    return rows
