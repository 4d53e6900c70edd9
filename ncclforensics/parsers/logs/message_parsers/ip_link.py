"""One interface of `ip -s link`: how many packets it received or sent in error.

2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT
    link/ether 0c:42:a1:00:00:01 brd ff:ff:ff:ff:ff:ff
    RX:  bytes  packets errors dropped  missed   mcast
    9182736455 12039485 128441      22       0   55122
"""

from __future__ import annotations

import re
from itertools import pairwise

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("counter", "count")
KINDS = {"count": "int"}
_HEAD = re.compile(r"\s+(?P<way>[RT]X): +bytes +packets +errors\b")
_ERRORS = re.compile(r"\s+[0-9]+ +[0-9]+ +(?P<errors>[0-9]{1,18})\b")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row, the counter of this interface with most errors; or none."""
    found: list[dict[str, object]] = []
    for above, line in pairwise(capped(text).splitlines()[1:]):
        if not above[:1].isspace():
            break
        head, errors = _HEAD.match(above), _ERRORS.match(line)
        if head and errors:
            count = int(errors["errors"])
            found.append({"counter": f"{head['way']} errors", "count": count})
    return sorted(found, key=lambda row: -int(str(row["count"])))[:1]
