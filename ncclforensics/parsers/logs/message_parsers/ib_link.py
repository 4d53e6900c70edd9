"""One card of `iblinkinfo`: how its link is, and how it could be.

CA: gpu0045 mlx5_2:
      0x9c63… 16 1[ ] ==( 1X 25.78125 Gbps Active/ LinkUp)==> … ( Could be 4X)
"""

from __future__ import annotations

import re
from itertools import takewhile

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("port", "state", "width", "could")
KINDS = {"port": "int"}
_LINK = re.compile(
    r"\s+0x[0-9a-f]+\s+[0-9]+\s+(?P<port>[0-9]{1,3})\[[^\]]*\] ==\(\s*"
    r"(?:(?P<width>[0-9]{1,2}X)\s+[0-9.]+ Gbps)?\s*(?P<state>\w+)/\s*\w+\)==>"
    r".*?(?:\( *Could be (?P<could>[^)]+?) *\))?\s*$"
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `port state width could` per link; `state` is in capitals."""
    below = map(_LINK.match, capped(text).splitlines()[1:])
    return [
        {
            "port": int(link["port"]),
            "state": link["state"].upper(),
            "width": link["width"],
            "could": link["could"],
        }
        for link in takewhile(bool, below)
        if link
    ]
