"""Ray's `The actor died unexpectedly`: lines of `name: value`, then Ray's guesses.

    \tclass_name: Worker
    \tactor_id: 9f0c
    \tpid: 41011
    \tip: 10.20.0.12

The potential root causes below them are the same text every time.
"""

from __future__ import annotations

import re

_PID = re.compile(r"(?m)^[ \t]+pid: (\d{1,9})[ \t\r]*$")
_IP = re.compile(r"(?m)^[ \t]+ip: ([\w.:-]+)[ \t\r]*$")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with the `pid` and `host` (an address) of the dead, or none."""
    pid, ip = _PID.search(text), _IP.search(text)
    if not pid and not ip:
        return []
    return [{"pid": int(pid[1]) if pid else None, "host": ip[1] if ip else None}]
