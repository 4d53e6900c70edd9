"""One record of `scontrol show job` or `scontrol show node`: `Key=value` lines.

A record ends at an empty line or where the next begins; with `-o` it is one line. Times
are local, without a zone. A node's reason is followed by who set it, and when:
`Reason=Not responding [slurm@2026-11-20T12:00:00]` (Slurm 22.05).
"""

from __future__ import annotations

import re

from ncclforensics.model.hostlist import expanded
from ncclforensics.parsers.logs.message_parsers.limits import capped

COLUMNS = ("when", "nodes", "node_state", "reason", "by")
KINDS = {"nodes": "strings"}
_END = re.compile(r"\n[ \t]*(?:\n|$|(?=NodeName=|JobId=))")
_TIME = r"\d{4}-\d\d-\d\dT[\d:]+"
_ENDED = re.compile(rf"\bEndTime=({_TIME})")
_NODES = re.compile(r"(?:^|\s)NodeList=(\S+)")
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(rf"\bReason=(.*?) \[([^@\s\[]+)@({_TIME})\]")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row: `when`, `nodes`, `node_state`, `reason`, `by`; nulls if unknown.

    `when` is the end of a job, or the time at which a node's reason was set.
    """
    record = _END.split(capped(text), maxsplit=1)[0]
    reason, nodes = _REASON.search(record), _NODES.search(record)
    ended, state = _ENDED.search(record), _STATE.search(record)
    is_node = record.startswith("NodeName=")
    return [
        {
            "when": reason[3] if reason else ended[1] if ended else None,
            "nodes": expanded(nodes[1]) if nodes and not is_node else None,
            "node_state": state[1] if state and is_node else None,
            "reason": reason[1] if reason else None,
            "by": reason[2] if reason else None,
        }
    ]
