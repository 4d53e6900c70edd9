"""The two ends of a connection that Open MPI lost, some lines below its sentence.

Local host: gpu0001
Local PID:  41011
Peer host:  gpu0002

Of one that its daemons could not make, the peer is the `Remote host`. Where a process
could not make one, the address and the error take the place of the peer.

PID:        41011
Message:    connect() to 10.0.0.2:1024 failed
Error:      No route to host (113)
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("host", "pid", "peer", "error")
_END = re.compile(
    r"(?m)^\s*(?P<what>Local host|(?:Local )?PID|Peer host|Remote host):"
    r"[ \t]+(?P<told>[\w.:-]+)"
)
_CONNECT = re.compile(
    r"(?m)^\s*Message:[ \t]+connect\(\) to (?P<peer>[\w.-]+):\d+ failed\s*\n"
    r"\s*Error:[ \t]+(?P<error>[^(\n]+?) \(\d+\)"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `host`, `pid` of the end that prints, `peer` and `error`.

    The list is empty if the lines do not name the peer.
    """
    text = capped(text)
    told = {end["what"]: end["told"] for end in _END.finditer(text)}
    tried = _CONNECT.search(text)
    peer = tried["peer"] if tried else told.get("Peer host", told.get("Remote host"))
    if peer is None:
        return []
    pid = told.get("Local PID", told.get("PID", ""))
    row = {"host": told.get("Local host"), "peer": peer}
    row["error"] = tried["error"] if tried else None
    return [row | {"pid": int(pid) if pid.isdecimal() else None}]
