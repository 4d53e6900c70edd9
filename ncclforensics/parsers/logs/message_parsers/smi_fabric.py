"""The `Fabric` section of `nvidia-smi -q`: the state of one GPU's NVLink fabric.

The healthy values are `State : Completed` and `Status : Success`; both are `N/A` if
there is no fabric. The section ends at the first line that is not indented deeper.
"""

from __future__ import annotations

from itertools import takewhile

import pyparsing as pp

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("state", "status", "clique", "cluster", "bandwidth")
_NAMES = {
    "State": "state",
    "Status": "status",
    "CliqueId": "clique",
    "ClusterUUID": "cluster",
    "Bandwidth": "bandwidth",
}
_LINE = (
    pp.one_of(list(_NAMES), as_keyword=True)("name")
    + pp.Suppress(":")
    + pp.Regex(r".*")("value")
)


def parse(text: str) -> list[dict[str, object]]:
    """Return one row `state status clique cluster bandwidth`, as printed, or none."""
    head, *lines = capped(text).splitlines() or [""]
    depth = len(head) - len(head.lstrip())
    row: dict[str, object] = {}
    for line in takewhile(lambda x: len(x) - len(x.lstrip()) > depth, lines):
        try:
            found = _LINE.parse_string(line)
        except pp.ParseException:
            continue
        row.setdefault(_NAMES[found["name"]], found["value"].strip())
    return [dict.fromkeys(_NAMES.values(), None) | row] if row else []
