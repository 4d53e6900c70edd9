"""The two ends of a connection that Open MPI lost, some lines below its sentence.

Local host: gpu0001
Local PID:  41011
Peer host:  gpu0002
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host", "pid", "peer")
_END = re.compile(
    r"(?m)^\s*(?P<what>Local host|Local PID|Peer host):[ \t]+(?P<told>[\w.:-]+)"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `host`, `pid` of the end that prints, and `peer`.

    The list is empty if the lines do not name the peer.
    """
    told = {end["what"]: end["told"] for end in _END.finditer(capped(text))}
    if "Peer host" not in told:
        return []
    pid = told.get("Local PID", "")
    row = {"host": told.get("Local host"), "peer": told["Peer host"]}
    return [row | {"pid": int(pid) if pid.isdecimal() else None}]
