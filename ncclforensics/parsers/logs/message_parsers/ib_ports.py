"""The ports of one card in `ibstat` or `ibv_devinfo`: which are up.

    CA 'mlx5_0'                     hca_id: mlx5_0
            Port 1:                         port:   1
                    State: Down                     state:  PORT_DOWN (1)

Many cards have ports that nobody uses: a port that is down is a state, and no failure.
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("port", "state", "rate")
KINDS = {"port": "int", "rate": "int"}
_NUMBER = r"(?: (?P<ibstat>[0-9]{1,3}):|:\s*(?P<verbs>[0-9]{1,3}))"
_PORT = re.compile(rf"\s+[Pp]ort{_NUMBER}\s*$")
_RATE = re.compile(r"\s+Rate: (?P<rate>[0-9]{1,5})\b")
_STATE = re.compile(r"\s+[Ss]tate:\s+(?:PORT_)?(?P<state>[A-Za-z]+)")


def parse(text: str) -> list[dict[str, object]]:
    """Return a row `port state rate` per port, `rate` in Gbit/s where ibstat tells it.

    `state` is in capitals, such as `ACTIVE`.
    """
    rows: list[dict[str, object]] = []
    port: int | None = None
    for line in capped(text).splitlines()[1:]:
        if not line[:1].isspace() and line:
            break
        if found := _PORT.match(line):
            port = int(found["ibstat"] or found["verbs"])
        elif port is not None and (found := _STATE.match(line)):
            state = found["state"].upper()
            rows.append({"port": port, "state": state, "rate": None})
            port = None
        elif rows and (found := _RATE.match(line)):
            rows[-1]["rate"] = int(found["rate"])
    return rows
