"""How a node answered, and the stream that it answers on, with its limit."""

from __future__ import annotations

import os
import re
import select
import time
from dataclasses import dataclass
from typing import Literal

Kind = Literal["share", "part", "silent", "refused", "unasked"]

# A node or its daemon that cannot be reached, in the words of ssh, kubectl and srun.
# Any other failure is one of access or of setup, and says nothing of the node.
UNREACHABLE = re.compile(
    r"(?i)timed? ?out|no route|unreachable|connection (?:refused|reset|closed)"
    r"|closed by|broken pipe|could not resolve|name or service not known|no such host"
    r"|communication connection failure|not responding|node(?:_| )fail|down, drained"
    r"|error dialing backend"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one node.

    `kind`: "share" is a whole answer, "part" one that ended early, "silent" none
    because the node was not reached or was late, "refused" none although it was
    reached, "unasked" none because the gathering was interrupted. `why` has the reason
    in the tool's words, `host` the node's own name.
    """

    node: str
    kind: Kind
    why: str = ""
    host: str | None = None
    seconds: float = 0.0
    bytes: int = 0
    files: int = 0


class Stream:
    """What a process writes to its stdout, until a deadline.

    `read` returns b"" at the end and after the deadline; `late` says which it was.
    """

    def __init__(self, descriptor: int, deadline: float) -> None:
        """Read `descriptor` until `deadline`, a time of `time.monotonic`."""
        self._descriptor = descriptor
        self._deadline = deadline
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLIN | select.POLLHUP)
        self.late = False
        self.bytes = 0

    def read(self, size: int = 1 << 16) -> bytes:
        """Return at most `size` bytes, as soon as there are any."""
        left = self._deadline - time.monotonic()
        if self.late or left <= 0 or not self._ready.poll(left * 1000):
            self.late = True
            return b""
        got = os.read(self._descriptor, max(size, 1))
        self.bytes += len(got)
        return got

    def drain(self) -> None:
        """Read to the end, so that the process does not meet a closed pipe."""
        while self.read():
            pass


def kind(code: int | None, came: int, whole: bool, said: str) -> Kind:
    """Return the kind of an answer.

    `code` is the exit code of the command, None if it was late; `came` how many bytes
    there are, `whole` whether they are all, `said` the last line of stderr.
    """
    if came:
        return "share" if whole and code == 0 else "part"
    if code is None or UNREACHABLE.search(said):
        return "silent"
    return "refused"
