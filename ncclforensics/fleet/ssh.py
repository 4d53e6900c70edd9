"""Nodes of a host file, by ssh: without questions, and with a limit to connect.

A host file has a host on each line, as mpirun and pdsh read it: `gpu0001 slots=8`, also
`user@host`, `ssh://user@host:2222`, and folded `gpu[0001-0016]`. `#` begins a comment.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ncclforensics.fleet.nodes import PYTHON, Node, once
from ncclforensics.model.errors import UsageError, reason
from ncclforensics.model.hostlist import expanded

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECT_S = 10
OPTIONS = (
    *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"),
    # a node that dies while it answers is noticed
    *("-o", "ServerAliveInterval=10", "-T"),
)
# a name that ssh cannot take for an option
_HOST = re.compile(r"(?:ssh://)?(?:[\w.-]+@)?([A-Za-z0-9_][\w.:%-]*)")


def nodes(file: str, arguments: Sequence[str] = ()) -> list[Node]:
    """Return the nodes of the host file `file`; UsageError if it names none.

    `arguments` are those of the script that ssh starts.
    """
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as caught:
        raise UsageError(f"{file}: {reason(caught)}") from caught
    command = shlex.join((*PYTHON, *arguments))
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.partition("#")[0].split()[:1]
        for host in expanded(word[0]) if word else ():
            named = _HOST.fullmatch(host)
            if named is None:
                raise UsageError(f"{file}:{number}: not a host: {host}")
            found.append(Node(named[1], ("ssh", *OPTIONS, "--", host, command)))
    if not found:
        raise UsageError(f"{file}: no host in it")
    return once(found)
