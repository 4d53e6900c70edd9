"""The ranks of one node in Open MPI's map of a job (`--display-map`, 1.8 to 5.0).

Data for node: gpu0003  Num slots: 8  Max slots: 0  Num procs: 2
       Process OMPI jobid: [30138,1] App: 0 Process rank: 18 Bound: N/A
       Process OMPI jobid: [30138,1] App: 0 Process rank: 19 Bound: N/A
"""

from __future__ import annotations

import re

from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("on", "first", "turn")
KINDS = {"first": "int", "turn": "int"}
_NODE = re.compile(r"Data for node: ([\w.-]+)")
_RANK = re.compile(r"^\s*Process .*Process rank: (\d{1,6})\b")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row per rank of the node: `on`, `first` and its `turn`."""
    lines = capped(text).splitlines()
    node = _NODE.search(lines[0]) if lines else None
    rows: list[dict[str, object]] = []
    for line in lines[1:]:
        rank = _RANK.match(line)
        if not node or not rank:
            break
        rows.append({"on": node[1], "first": int(rank[1]), "turn": len(rows)})
    return rows
