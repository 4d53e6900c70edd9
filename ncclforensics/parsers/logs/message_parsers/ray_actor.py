"""Ray's `The actor died unexpectedly`: lines of `name: value`, then Ray's guesses.

    \tclass_name: Worker
    \tactor_id: 9f0c
    \tpid: 41011
    \tname: fLhSWorkerDict_0:3
    \tip: 10.20.0.12

verl names its actors by node and local index: on the first node the index is the rank.
The potential root causes that Ray prints below are always the same text; that the
actor's node has died is not one of them. An actor also ends with its
owner, which is another process: then the line tells of that one, and of its node.
"""

from __future__ import annotations

import re

COLUMNS = ("pid", "host", "rank", "node_died", "owner_exit")
KINDS = {"node_died": "bool"}
_PID = re.compile(r"(?m)^[ \t]+pid: (\d{1,9})[ \t\r]*$")
# people replace addresses by `xxx`
_IP = re.compile(r"(?m)^[ \t]+ip: (?![xX.*]+[ \t\r]*$)([\w.:-]+)[ \t\r]*$")
_FIRST_NODES = re.compile(r"(?m)^[ \t]+name: \w*WorkerDict_0:(\d{1,3})[ \t\r]*$")
_NODE = re.compile(r"(?m)^The actor (?:is dead|died) because its node has died\b")
_OWNER = re.compile(
    r"\bits owner has died\b(?:[^\n]*?\bOwner Ip address: (\d[\w.:]*))?"
    r"(?:[^\n]*?\bOwner worker exit type: ([A-Z_]+))?"
)
_OWNERS_NODE = re.compile(r"\bWorker exit detail: Owner's node has crashed\b")


def parse(text: str) -> list[dict[str, object]]:
    """Return one row with `pid`, `host` (an address), `rank` of the dead actor.

    Of an actor that ended with its owner, `host` is the owner's and `owner_exit` the
    type of the owner's exit. `node_died`: Ray says that its whole node did. The list is
    empty if neither that nor pid or address is there.
    """
    owner = _OWNER.search(text)
    owners_node = _OWNERS_NODE.search(text) is not None
    if owner or owners_node:
        return [
            {
                "pid": None,
                "host": owner[1] if owner else None,
                "rank": None,
                "node_died": owners_node,
                "owner_exit": owner[2] if owner else None,
            }
        ]
    pid, ip, rank = (form.search(text) for form in (_PID, _IP, _FIRST_NODES))
    node_died = _NODE.search(text) is not None
    if not (pid or ip or node_died):
        return []
    return [
        {
            "pid": int(pid[1]) if pid else None,
            "host": ip[1] if ip else None,
            "rank": int(rank[1]) if rank else None,
            "node_died": node_died,
            "owner_exit": None,
        }
    ]
