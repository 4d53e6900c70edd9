"""Horovod's stalled tensors with the ranks that did submit them (0.11 to 0.15).

`Stalled ops: allreduce.a [ready ranks: 1, 0, 3], allreduce.b [ready ranks: 1, 0, 3]`,
all on one line; ranks are in order of arrival.
"""

from __future__ import annotations

import pyparsing as pp

from ncclforensics.parsers.limits import MAX_RANK
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("tensor", "ready")
_ONE = (
    # a name never starts inside another; without this, long names take forever
    pp.Regex(r"(?<![^\s,])[^\s,\[\]:]+(?::\d+)?")("tensor")
    + pp.Suppress("[ready ranks:")
    + pp.DelimitedList(pp.Regex(r"\d{1,9}"))("ready")
    + pp.Suppress("]")
)


def parse(text: str) -> list[dict[str, object]]:
    """Return a row per tensor: `tensor`, and `ready`, its ranks as text `0,1,3`."""
    rows: list[dict[str, object]] = []
    for found, _, _ in _ONE.scan_string(capped(text)):
        if ready := [rank for rank in found["ready"] if int(rank) < MAX_RANK]:
            rows.append({"tensor": found["tensor"], "ready": ",".join(ready)})
    return rows
